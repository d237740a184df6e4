"""Figures of the optimizers: accuracy against the learning rate, and the two comparisons."""

from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.report.plots import Series, dot_plot
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import NEUTRAL, PALETTE, house_style, log_axis, panels
from attnlab.studies.adapting.evidence import AdaptArms
from attnlab.studies.adapting.optimizers import Optimizers
from attnlab.studies.adapting.plots import draw_curves, draw_line, draw_majority
from attnlab.studies.adapting.settings import rate_text


def figures(study: Optimizers, arms: AdaptArms) -> list[Figure]:
    """No figures where no training ended."""
    common = study.settings.common_rate
    drawn: dict[str, Drawn] = {
        "rates": (lambda: _rates(arms, common), arms.table.ids),
        "fair": (lambda: _fair(arms, common), arms.table.ids),
        "at-one-rate": (lambda: draw_curves(arms, arms.names(), common), arms.table.ids),
        "curves": (lambda: draw_curves(arms, arms.names()), arms.table.ids),
    }
    return with_words(study, drawn, common=rate_text(common))


def _rates(arms: AdaptArms, common: float) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.2)
        log_axis(ax, "x")
        for name, color in zip(arms.names(), PALETTE, strict=False):
            cells = arms.dev_by_cell(name, "rate")
            rates = [rate for (rate,) in cells]
            draw_line(ax, rates, list(cells.values()), color, arms.label(name))
        ax.axvline(common, color=NEUTRAL, linestyle="--", linewidth=0.9)
        draw_majority(ax, arms.mean(arms.names()[0], "dev_majority"))
        ax.set_xlabel("learning rate")
        ax.set_ylabel("dev accuracy")
        # the curves cross and meet at their ends: no room for a label at each
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(arms.names()))
    return drawing


def _fair(arms: AdaptArms, common: float) -> Drawing:
    series = [
        Series(f"dev, learning rate {rate_text(common)}", PALETTE[1], hollow=True),
        Series("test, learning rate chosen on dev", PALETTE[0]),
    ]
    names = arms.names()
    lines = {
        arms.label(name): [arms.dev_at_rate(name, common), arms.accuracy(name)] for name in names
    }
    majority = arms.mean(names[0], "majority")
    return dot_plot(lines, series, xlabel="accuracy", limits=(0.0, 1.0), baseline=majority)
