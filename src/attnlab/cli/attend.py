"""attnlab attend TARGET --text "…": attention weights as a table, a picture or a page."""

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
    say,
    say_json,
    say_remark,
    say_table,
)


def attend(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    text: Annotated[str, typer.Option(help="The text the model reads.")],
    layer: Annotated[
        int | None, typer.Option(min=0, help="Show this layer only, counted from 0.")
    ] = None,
    head: Annotated[
        int | None, typer.Option(min=0, help="Show this head only, counted from 0.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also write a .png, .svg or .pdf file.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write an interactive HTML page.")] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Show the attention weights of a model on a text.

    All layers and heads are shown unless --layer or --head choose one.
    """
    from attnlab.api.questions import attend
    from attnlab.report import attention as maps

    with guard_stdout():
        attention = attend(target, text, out, device, remark=say_remark)
    columns, rows = maps.table(attention, layer, head)  # refuses a wrong layer before any file
    if picture is not None:
        maps.save(maps.picture(attention, layer, head), picture)
    if html is not None:
        maps.write_page(attention, html)
    if json:
        say_json(maps.as_json(attention))
        return
    say_table(columns, rows)
    for path in (picture, html):
        if path is not None:
            say(str(path))
