"""attnlab report RUN: write the report again, from the run folder alone."""

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer

from attnlab.cli.console import RUNS, OutOption, RunArgument, say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    run: RunArgument,
    out: OutOption = RUNS,
    pdf: Annotated[bool, typer.Option("--pdf", help="Also draw the figures as PDF.")] = False,
) -> None:
    """Write RUN's report.html from what is stored, reusing its figures."""
    from attnlab.lab.runs import find_run
    from attnlab.report.build import write_report

    path = find_run(run, out)
    if pdf:
        from attnlab.api.conclude import draw_pdf

        with redirect_stdout(sys.stderr):  # what a study prints is no answer of ours
            drawn = draw_pdf(path)
        for made in drawn:
            say(str(made))
    say(str(write_report(path)))
