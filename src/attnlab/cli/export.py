"""attnlab export RUN DIR: a trained model as a Hugging Face folder."""

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import RUNS, JsonOption, OutOption, TargetArgument, say, say_json


def export(
    target: TargetArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty folder.")],
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Write a GPT as a Hugging Face folder.

    AutoModelForCausalLM.from_pretrained(DIR) loads it; a model with parts that neither GPT-2 nor
    Llama has needs `import attnlab.models.hugging_face` first.
    """
    from attnlab.api.questions import export_target

    files = export_target(target, folder, out)
    if json:
        say_json({"target": target, "folder": str(folder), "files": files})
    else:
        for name in files:
            say(str(folder / name))
