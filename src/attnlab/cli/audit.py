"""attnlab audit TARGET: test any model for silent failures."""

from typing import Annotated

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    QuietOption,
    TargetArgument,
    guard_stdout,
    note,
    say,
    say_json,
    say_table,
)

COULD_NOT_JUDGE = 7  # exit code


def audit(  # noqa: PLR0913  (each is one documented option)
    target: TargetArgument,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="AUDIT", help="Run only this audit; can be repeated."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="AUDIT", help="Leave out this audit; can be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the test inputs.")] = 0,
    length: Annotated[
        int | None, typer.Option(min=3, help="Length of the longest test input, in tokens.")
    ] = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code",
            help="Run the Python code that comes with the model; needs --revision.",
        ),
    ] = False,
    revision: Annotated[
        str | None, typer.Option(help="Commit of a hub model, or the hash of a folder's code.")
    ] = None,
    device: DeviceOption = "cpu",
    out: OutOption = RUNS,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Test a model for silent failures.

    For example: attention to future tokens, rows of a batch that influence each other, tokens
    that have no effect. Exit code 1: an audit failed. Exit code 7: the model could not be judged,
    because it raised an error on the input of an audit, or because none that was asked for applies.
    """
    from attnlab.api.questions import audit
    from attnlab.audit.finding import AUDIT_MARKS, NOT_JUDGED, Finding

    def on_finding(finding: Finding) -> None:
        if not quiet:
            note(f"{AUDIT_MARKS[finding.verdict]} {finding.name}")

    with guard_stdout():
        verdicts = audit(
            target,
            out,
            device,
            only=only or [],
            skip=skip or [],
            seed=seed,
            length=length,
            revision=revision,
            trust=trust_remote_code,
            on_finding=on_finding,
        )
    if json:
        say_json(verdicts.as_json())
    else:
        if verdicts.verdict == NOT_JUDGED:
            say(f"could not be judged: {verdicts.why}")
        say_table(
            ["", "audit", "number", "threshold", "what was found"],
            [list(finding.cells()) for finding in verdicts],
        )
        say(verdicts.summary())
    if verdicts.verdict != "pass":
        raise typer.Exit(COULD_NOT_JUDGE if verdicts.verdict == NOT_JUDGED else 1)
