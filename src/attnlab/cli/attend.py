"""attnlab attend TARGET --text "…": where a model looks, as a table, a picture or a page."""

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
    say,
    say_json,
    say_table,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("attend")(attend)


def attend(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    text: Annotated[str, typer.Option(help="What the model reads.")],
    layer: Annotated[int | None, typer.Option(min=0, help="One layer, from 0.")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="One head of it, from 0.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write a .png, .svg or .pdf.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page to explore.")] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Show the attention of TARGET on a text: every layer and head, or one of them."""
    from attnlab.api.questions import attend
    from attnlab.report import attention as maps

    with redirect_stdout(sys.stderr):  # what a person's own model prints is no answer of ours
        found = attend(target, text, out, device)
    columns, rows = maps.table(found, layer, head)  # before any file: a wrong layer is said first
    if picture is not None:
        maps.save(maps.picture(found, layer, head), picture)
    if html is not None:
        maps.write_page(found, html)
    if json:
        say_json(maps.as_json(found))
        return
    say_table(columns, rows)
    for path in (picture, html):
        if path is not None:
            say(str(path))
