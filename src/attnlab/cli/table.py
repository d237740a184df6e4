"""attnlab table RUN: print the trials of a run as a table, as CSV or as JSON."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from attnlab.cli.console import (
    RUNS,
    JsonOption,
    OutOption,
    RunArgument,
    note,
    say_json,
    say_table,
    terminal_width,
)


def table(
    run: RunArgument,
    out: OutOption = RUNS,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Add columns for time and memory.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the trials of a run with settings and metrics.

    A terminal shows the columns that differ between trials and fit; --csv and --json show all.
    """
    from attnlab.lab.record import Record
    from attnlab.lab.runs import find_run
    from attnlab.lab.table import csv_text, flat

    record = Record.open(find_run(run, out))
    columns, rows = flat(record.table(), cost)
    if json:
        say_json({"run": record.name, "columns": columns, "rows": rows})
    elif csv:
        sys.stdout.write(csv_text(columns, rows))
    else:
        _say_fitting(columns, [["" if v is None else str(v) for v in row] for row in rows])


def _say_fitting(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print all columns in a pipe; on a terminal those that differ between trials and fit."""
    from attnlab.lab.table import FIRST

    room, shown = terminal_width(), list(range(len(columns)))
    if room is not None:
        room, shown = room - 1, []
        for i, name in enumerate(columns):
            width = 2 + max(len(cell) for cell in (name, *(row[i] for row in rows)))
            varied = len({row[i] for row in rows}) > 1 or name in FIRST
            if varied and width <= room:
                room -= width
                shown.append(i)
    say_table([columns[i] for i in shown], [[row[i] for i in shown] for row in rows])
    if len(shown) < len(columns):
        note(f"{len(shown)} of {len(columns)} columns; --csv and --json print all")
