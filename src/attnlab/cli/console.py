"""What every command prints with: rich tables on a terminal, plain lines in a pipe, JSON alone."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

OutOption = Annotated[Path, typer.Option("--out", help="Folder where runs live.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="A run's folder or its name.")]
RUNS = Path("runs")


def say_error(text: str) -> None:
    """`attnlab: what, where, why` on stderr."""
    sys.stderr.write(f"attnlab: {text}\n")


def say(text: str = "") -> None:
    """One line on stdout, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """One line on stderr: progress and remarks, never results."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say_json(value: Any) -> None:
    """The one JSON document of a `--json` call."""
    say(json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False))


def say_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: drawn by rich on a terminal, padded columns without control codes in a pipe."""
    if sys.stdout.isatty():
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
        Console().print(table)
        return
    widths = [max(len(str(r[i])) for r in (columns, *rows)) for i in range(len(columns))]
    for row in (columns, *rows):
        say("  ".join(str(c).ljust(w) for c, w in zip(row, widths, strict=True)).rstrip())


def _style(cell: str) -> str:
    """Colour repeats what the mark says; it never says it alone."""
    return {"✓": "green", "✗": "red", "?": "yellow"}.get(cell[:1], "") if cell else ""
