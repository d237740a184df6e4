"""attnlab perplexity TARGET FILE: how surprised a model is by a text."""

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
    TargetArgument,
    say_json,
    say_table,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("perplexity")(perplexity)


def perplexity(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A UTF-8 text.")] = None,
    text: Annotated[str | None, typer.Option(help="A text instead of FILE.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="Each line is a sentence.")] = False,
    stride: Annotated[int | None, typer.Option(min=1, help="Default: the context.")] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """exp(Σ NLL / Σ tokens) of a text; with --lines also the mean over lines of exp(loss)."""
    from attnlab.api.questions import perplexity
    from attnlab.core.errors import UsageError
    from attnlab.tasks.corpus import read_text

    if (file is None) == (text is None):
        raise UsageError("perplexity needs FILE or --text, one of them")
    read = text if file is None else read_text(file)
    with redirect_stdout(sys.stderr):  # what a person's own model prints is no answer of ours
        found = perplexity(target, str(read), out, device, lines=lines, stride=stride)
    if json:
        say_json(found)
    else:
        say_table(
            ["quantity", "value"], [[k, _shown(v)] for k, v in found.items() if v is not None]
        )


def _shown(value: object) -> str:
    return (
        f"{value:,.4f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
