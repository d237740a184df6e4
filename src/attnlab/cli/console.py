"""What every command prints with: rich tables on a terminal, plain lines in a pipe, JSON alone."""

import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, redirect_stdout, suppress
from io import TextIOWrapper
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.core.notes import note as note

OutOption = Annotated[Path, typer.Option("--out", help="Folder that holds the runs.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
QuietOption = Annotated[bool, typer.Option("--quiet", help="Show no progress and no remarks.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name or folder of a run.")]
TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A run, RUN@TRIAL, model folder, .gguf file, asset, hub name (owner/name) or "
        "module:function.",
    ),
]
StudyArgument = Annotated[
    str, typer.Argument(metavar="STUDY", help="A name (see `attnlab list`) or a file (./mine.py).")
]
ScaleOption = Annotated[str, typer.Option(help="Size of the study: smoke, quick or full.")]
DeviceOption = Annotated[str, typer.Option(help="Device: auto, cpu, cuda or mps.")]
RUNS = Path("runs")
ERROR_LINES, ERROR_WIDTH = 3, 700


def set_option(names: str) -> Any:
    """The option `--set`; `names` says which settings there are or where they are listed."""
    return typer.Option(
        "--set", metavar="KEY=VALUE", help=f"Change one setting; can be repeated. {names}"
    )


def command_group(name: str, help: str) -> typer.Typer:
    """Commands under one name; without a command the help is printed and the exit code is 2."""
    group = typer.Typer(name=name, help=help)

    @group.callback(invoke_without_command=True)
    def _(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help(), err=True)
            raise typer.Exit(2)

    return group


def guard_stdout() -> AbstractContextManager[Any]:
    """Inside, what a user's model or study prints goes to stderr: stdout holds our output only."""
    return redirect_stdout(sys.stderr)


def open_streams() -> None:
    """Replace a closed stream by one that drops its text; escape what cannot be encoded."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Send what is still buffered to nowhere: the pipe is closed, or the disk is full."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_error(text: str) -> None:
    """Print an error on stderr: at most three lines, without control characters."""
    lines = [line for line in text.split("\n") if line.strip()][:ERROR_LINES]
    shown = ("".join(c if c.isprintable() else repr(c)[1:-1] for c in line) for line in lines)
    note("attnlab: " + "\n  ".join(line[:ERROR_WIDTH] for line in shown))


def say_remark(text: str) -> None:
    """Print a remark on stderr."""
    note(f"attnlab: {text}")


def say(text: str = "") -> None:
    """Print a line on stdout and flush it; a closed pipe (`| head`) is no error."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()


def say_json(value: Any) -> None:
    """Print the JSON document of a `--json` call; NaN and infinities become null."""
    say(json.dumps(finite(value), indent=1, allow_nan=False, ensure_ascii=False))


def finite(value: Any) -> Any:
    """The value with None in place of NaN and infinities."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value


def say_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: drawn by rich on a terminal, padded columns of plain text in a pipe."""
    if sys.stdout.isatty():
        _draw(columns, rows)
        return
    for line in align((columns, *rows)):
        say(line)


def align(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Each row as one line, its cells padded to the width of their columns."""
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for row in rows:
        yield "  ".join(map(str.ljust, row, widths)).rstrip()


def terminal_width() -> int | None:
    """Width of the terminal in characters, or None when stdout is a pipe or a file."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console().width


def _draw(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    Console().print(table)


def _style(cell: str) -> str:
    """The colour of a cell that begins with a mark; the mark alone says the same."""
    return {"✓": "green", "✗": "red", "?": "yellow"}.get(cell[:1], "") if cell else ""
