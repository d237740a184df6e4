"""attnlab runs: what is stored, and how to remove it."""

from typing import Annotated

import typer

from attnlab.cli.console import RUNS, JsonOption, OutOption, say, say_json, say_table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("runs")(runs)


def runs(
    out: OutOption = RUNS,
    remove: Annotated[str | None, typer.Option(metavar="RUN", help="Remove this run.")] = None,
    json: JsonOption = False,
) -> None:
    """List the stored runs, or remove one."""
    from attnlab.lab.runs import find_run, list_runs, remove_run

    if remove is not None:
        path = find_run(remove, out)
        remove_run(path)
        say_json({"removed": path.name}) if json else say(f"removed {path.name}")
        return
    found = list_runs(out)
    if json:
        say_json({"runs": [info.as_json() for info in found]})
        return
    rows = [[str(v) for v in info.as_json().values()] for info in found]
    say_table(list(found[0].as_json()) if found else ["run"], rows)
