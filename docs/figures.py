"""Draw the figures the README and the guide show, from the run `make run` makes.

python docs/figures.py
"""

from pathlib import Path

from attnlab.api.running import plan, run
from attnlab.report.style import save_svg

HERE = Path(__file__).parent
SHOWN = {"figure-2", "figure-3", "critical-lines"}


def main() -> None:
    """Run what is missing of the study, then draw the chosen figures into docs/figures."""
    planned = plan("phase-transition")
    table = run(planned, out=HERE.parent / "runs").table.done()
    for figure in planned.study.figures(planned.study.evidence(table)):
        if figure.name in SHOWN:
            save_svg(figure.draw(), HERE / "figures" / f"{figure.name}.svg")


if __name__ == "__main__":
    main()
