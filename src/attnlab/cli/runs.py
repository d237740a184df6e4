"""attnlab runs: list the stored runs, or remove one."""

from typing import Annotated, Any

import typer

from attnlab.cli.console import RUNS, JsonOption, OutOption, say, say_json, say_table
from attnlab.report.text import number


def runs(
    out: OutOption = RUNS,
    remove: Annotated[
        str | None, typer.Option(metavar="RUN", help="Remove this run and its files.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """List the stored runs, or remove one."""
    from attnlab.core.errors import UsageError
    from attnlab.lab.runs import find_run, list_runs, remove_run

    if out.exists() and not out.is_dir():
        raise UsageError(f"{out}: not a folder; --out names the folder that holds the runs")
    if remove is not None:
        path = find_run(remove, out)
        remove_run(path)
        say_json({"removed": path.name}) if json else say(f"removed {path.name}")
        return
    stored = list_runs(out)
    if json:
        say_json({"runs": [info.as_json() for info in stored]})
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
