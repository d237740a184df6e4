"""attnlab report RUN: write the report of a stored run again."""

from typing import Annotated

import typer

from attnlab.cli.console import RUNS, OutOption, RunArgument, guard_stdout, say


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
