"""attnlab compare A B: do two models say the same?"""

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    say_json,
    say_table,
)

FirstArgument = Annotated[str, typer.Argument(metavar="A", help="A model, as for attend.")]
SecondArgument = Annotated[str, typer.Argument(metavar="B", help="Another.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compare")(compare)


def compare(  # noqa: PLR0913  (each is one documented option)
    first: FirstArgument,
    second: SecondArgument,
    text: Annotated[str | None, typer.Option(help="What both read.")] = None,
    file: Annotated[Path | None, typer.Option(help="A UTF-8 text both read.")] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Largest and mean gap of the logits of A and B on one text, and how often they agree."""
    from attnlab.api.questions import compare
    from attnlab.core.errors import UsageError
    from attnlab.tasks.corpus import read_text

    if text is not None and file is not None:
        raise UsageError("compare reads --text or --file, not both")
    read = read_text(file) if file is not None else text
    with redirect_stdout(sys.stderr):  # what a person's own model prints is no answer of ours
        found = compare(first, second, None if read is None else str(read), out, device)
    if json:
        say_json(found)
        return
    rows = [[k, f"{v:.3g}" if isinstance(v, float) else str(v)] for k, v in found.items()]
    say_table(["quantity", "value"], rows)
