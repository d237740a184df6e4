"""attnlab perplexity TARGET FILE: the perplexity of a text under a model."""

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    TargetArgument,
    guard_stdout,
    say_json,
    say_remark,
    say_table,
)


def perplexity(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A UTF-8 text file.")] = None,
    text: Annotated[str | None, typer.Option(help="A text, instead of FILE.")] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Score every line as a text of its own.")
    ] = False,
    stride: Annotated[
        int | None,
        typer.Option(min=1, help="New tokens per window; default: the model's context length."),
    ] = None,
    stop: Annotated[
        bool,
        typer.Option(
            "--stop", help="Score the token that ends a text too, as studies do with sentences."
        ),
    ] = False,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Compute the perplexity of a text under a model.

    That is exp(Σ NLL / Σ tokens). With --lines, also the mean of the perplexities of all lines.
    A text need not be finished: that it ends is scored with --stop only. The sentences of the
    studies positions, head-merging and projection-depth are scored with it.
    """
    from attnlab.api.questions import perplexity
    from attnlab.core.errors import UsageError
    from attnlab.tasks.corpus import read_text

    if (file is None) == (text is None):
        raise UsageError("give either FILE or --text")
    read = text if file is None else read_text(file)
    with guard_stdout():
        scores = perplexity(
            target,
            str(read),
            out,
            device,
            lines=lines,
            stride=stride,
            stop=stop,
            remark=say_remark,
        )
    if json:
        say_json(scores)
    else:
        say_table(
            ["quantity", "value"], [[k, _format(v)] for k, v in scores.items() if v is not None]
        )


def _format(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
