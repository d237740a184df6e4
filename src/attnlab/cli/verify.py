"""attnlab verify RUN: is every byte what was written?"""

import typer

from attnlab.cli.console import RUNS, JsonOption, OutOption, RunArgument, say, say_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify)


def verify(run: RunArgument, out: OutOption = RUNS, json: JsonOption = False) -> None:
    """Check every file and row of RUN against its hash; exit 3 on any damage."""
    from attnlab.lab.runs import find_run
    from attnlab.lab.verify import verify_run

    found = verify_run(find_run(run, out))
    if json:
        say_json(found.as_json())
    else:
        state = "complete" if found.complete else "unfinished"
        say(f"{found.run}: {state}, {'undamaged' if found.ok else 'DAMAGED'}")
        for problem in found.problems:
            say(f"  {problem}")
        say(f"digest {found.digest or 'none: the run is damaged'}")
    if not found.ok:
        raise typer.Exit(3)
