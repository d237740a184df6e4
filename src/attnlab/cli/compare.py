"""attnlab compare A B: how far the logits of two models differ."""

from pathlib import Path
from typing import Annotated

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    guard_stdout,
    say_json,
    say_table,
)

FirstArgument = Annotated[
    str, typer.Argument(metavar="A", help="A model: any TARGET that `attnlab attend` takes.")
]
SecondArgument = Annotated[str, typer.Argument(metavar="B", help="Another model.")]


def compare(  # noqa: PLR0913  (each is one documented option)
    first: FirstArgument,
    second: SecondArgument,
    text: Annotated[str | None, typer.Option(help="The text both models read.")] = None,
    file: Annotated[Path | None, typer.Option(help="The same from a UTF-8 file.")] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Compare the logits of two models on one text.

    Prints the largest and the mean absolute difference, and the share of positions where both
    models predict the same token.
    """
    from attnlab.api.questions import compare
    from attnlab.core.errors import UsageError
    from attnlab.tasks.corpus import read_text

    if text is not None and file is not None:
        raise UsageError("give --text or --file, not both")
    read = read_text(file) if file is not None else text
    with guard_stdout():
        gaps = compare(first, second, None if read is None else str(read), out, device)
    if json:
        say_json(gaps)
        return
    rows = [[k, f"{v:.3g}" if isinstance(v, float) else str(v)] for k, v in gaps.items()]
    say_table(["quantity", "value"], rows)
