"""attnlab verify RUN: check a stored run for damage."""

import typer

from attnlab.cli.console import RUNS, JsonOption, OutOption, RunArgument, say, say_json


def verify(run: RunArgument, out: OutOption = RUNS, json: JsonOption = False) -> None:
    """Check every file and row of a run against its hash.

    Exit code 3: something is damaged.
    """
    from attnlab.lab.runs import find_run
    from attnlab.lab.verify import verify_run

    verification = verify_run(find_run(run, out))
    if json:
        say_json(verification.as_json())
    else:
        state = "complete" if verification.complete else "unfinished"
        say(f"{verification.run}: {state}, {'undamaged' if verification.ok else 'DAMAGED'}")
        for problem in verification.problems:
            say(f"  {problem}")
        say(f"digest {verification.digest or 'none: the run is damaged'}")
    if not verification.ok:
        raise typer.Exit(3)
