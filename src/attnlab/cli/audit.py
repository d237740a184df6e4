"""attnlab audit TARGET: is this model, yours or anyone's, fooling you?"""

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    TargetArgument,
    note,
    say,
    say_json,
    say_table,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("audit")(audit)


def audit(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    only: Annotated[list[str] | None, typer.Option(help="One audit by name; repeat.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the texts it is tried on.")] = 0,
    length: Annotated[int | None, typer.Option(min=3, help="Of the longest text tried.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the model's own code; needs a pin.")
    ] = False,
    revision: Annotated[
        str | None, typer.Option(help="A hub's commit; of a folder's code, its hash.")
    ] = None,
    device: DeviceOption = "cpu",
    out: OutOption = RUNS,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no remarks.")] = False,
    json: JsonOption = False,
) -> None:
    """Look for silent failures: a leaking mask, rows that read each other, a blind spot."""
    from attnlab.api.questions import audit
    from attnlab.audit.finding import AUDIT_MARKS, Finding

    def on_finding(finding: Finding) -> None:
        if not quiet:
            note(f"{AUDIT_MARKS[finding.verdict]} {finding.name}")

    with redirect_stdout(sys.stderr):  # what a person's own model prints is no answer of ours
        found = audit(
            target,
            out,
            device,
            only=only or [],
            seed=seed,
            length=length,
            revision=revision,
            trust=trust_remote_code,
            on_finding=on_finding,
        )
    if json:
        say_json(found.as_json())
    else:
        say_table(
            ["", "audit", "number", "threshold", "what was found"],
            [list(finding.cells()) for finding in found],
        )
        say(found.summary())
    if found.verdict == "fail":
        raise typer.Exit(1)
