"""attnlab predict RUN: the class of a text, by a classifier that `attnlab finetune` left."""

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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict")(predict)


def predict(
    run: RunArgument,
    text: Annotated[list[str], typer.Option(help="A text; repeat for more.")],
    second: Annotated[list[str] | None, typer.Option(help="Its partner, for pairs.")] = None,
    device: DeviceOption = "cpu",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Say which class a text belongs to, and how sure the classifier is."""
    from attnlab.api.finetuning import predict

    found = predict(run, text, out, device, second or [])
    if json:
        say_json(found)
        return
    rows = [
        [p["label"], f"{p['probabilities'][p['label']]:.3f}", " ".join(p["text"].split())[:SHOWN]]
        for p in found["predictions"]
    ]
    say_table(["label", "probability", "text"], rows)
