"""Commands on stored runs: runs, table, report, verify."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from attnlab.cli.console import (
    RUNS,
    JsonOption,
    OutOption,
    RunArgument,
    guard_stdout,
    note,
    say,
    say_json,
    say_table,
    terminal_width,
)
from attnlab.report.text import number


def runs(
    out: OutOption = RUNS,
    remove: Annotated[
        str | None, typer.Option(metavar="RUN", help="Remove this run and its files.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the stored runs, or remove one."""
    from attnlab.lab.runs import find_run, list_runs, remove_run

    if remove is not None:
        path = find_run(remove, out)
        remove_run(path)
        say_json({"removed": path.name}) if json else say(f"removed {path.name}")
        return
    stored = list_runs(out)
    if json:
        say_json({"runs": [vars(info) for info in stored]})
    elif stored:
        columns = ["run", "scale", "trials", "state", "created", "size"]
        say_table(columns, [_cells(info) for info in stored])
    else:
        say(f"no runs in {out}")


def _cells(info: Any) -> list[str]:
    state = info.problem or ("complete" if info.complete else "unfinished")
    created = info.created[:16].replace("T", " ")
    size = f"{number(max(0.1, round(info.size / 1e6, 1)))} MB"
    return [info.name, info.scale, f"{info.done}/{info.total}", state, created, size]


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


def report(
    run: RunArgument,
    out: OutOption = RUNS,
    pdf: Annotated[
        bool, typer.Option("--pdf", help="Also write the figures as PDF files.")
    ] = False,
) -> None:
    """Write the report of a stored run again.

    report.html is built from the stored results and figures; no trial is run.
    """
    from attnlab.lab.runs import find_run
    from attnlab.report.build import write_report

    path = find_run(run, out)
    if pdf:
        from attnlab.api.conclude import draw_pdf

        with guard_stdout():
            drawn = draw_pdf(path)
        for made in drawn:
            say(str(made))
    say(str(write_report(path)))


def verify(run: RunArgument, out: OutOption = RUNS, json: JsonOption = False) -> None:
    """Check every file and row of a run against its hash.

    Exit code 3: something is damaged.
    """
    from attnlab.lab.runs import find_run
    from attnlab.lab.verify import verify_run

    verification = verify_run(find_run(run, out))
    if json:
        say_json(vars(verification))
    else:
        state = "complete" if verification.complete else "unfinished"
        say(f"{verification.run}: {state}, {'undamaged' if verification.ok else 'DAMAGED'}")
        for problem in verification.problems:
            say(f"  {problem}")
        say(f"digest {verification.digest or 'none: the run is damaged'}")
    if not verification.ok:
        raise typer.Exit(3)
