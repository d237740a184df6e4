"""attnlab predict RUN: classify texts with a model that `attnlab finetune` has trained."""

from typing import Annotated

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    RunArgument,
    say_json,
    say_table,
)

SHOWN = 60  # characters of a text


def predict(
    run: RunArgument,
    text: Annotated[
        list[str], typer.Option(metavar="TEXT", help="A text to classify; can be repeated.")
    ],
    second: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="The second text of a pair, one for each --text."),
    ] = None,
    device: DeviceOption = "cpu",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Classify texts with a fine-tuned model.

    RUN comes from `attnlab finetune`. Prints each text's most probable label and its probability.
    """
    from attnlab.api.finetuning import predict

    document = predict(run, text, out, device, second or [])
    if json:
        say_json(document)
        return
    rows = [
        [p["label"], f"{p['probabilities'][p['label']]:.3f}", " ".join(p["text"].split())[:SHOWN]]
        for p in document["predictions"]
    ]
    say_table(["label", "probability", "text"], rows)
