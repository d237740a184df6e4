"""Share off, spread and distance of the output against one number: lines exact, points drawn."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.measure.intervals import Estimate
from attnlab.report.labels import note
from attnlab.report.style import (
    NEUTRAL,
    PALETTE,
    errorbars,
    house_style,
    log_axis,
    panels,
    published,
    theory_line,
)
from attnlab.studies.head_robustness.evidence import Evidence
from attnlab.studies.head_robustness.plan import BETA, NOISE, VARIES
from attnlab.studies.head_robustness.trial import ARMS

COLOURS = {"one": PALETTE[1], "two": PALETTE[0]}
WORDS = {"one": "one head", "two": "two heads"}
TOPS = {"off": 1.05, "variance_a": 0.55, "square": 0.75}  # alike where figures are compared
AXES = {
    "beta": "size β of the queries",
    "spread": "variance of the length of $k_a$",
    "noise": "variance α of every key",
}


def draw_sweep(e: Evidence, part: str) -> Drawing:
    """Three panels on one axis."""
    with house_style():
        drawing, axes = panels(1, 3, height=2.7)
        for ax, name, root, words in zip(
            axes,
            ("off", "variance_a", "square"),
            (False, True, True),
            ("share of outputs off", "std. deviation along $v_a$", "r.m.s. distance from average"),
            strict=True,
        ):
            for arm in ARMS:
                _series(ax, e, part, f"{arm}_{name}", root)
            log_axis(ax, "x")
            ax.set_ylabel(words)
            top = max(TOPS[name], ax.get_ylim()[1])
            ax.set_ylim(-0.06 * top, top)
        _names(axes[1])
        if part == BETA:
            _limit(axes[0], e)
        if part == NOISE:
            _noise_edge(axes, e.settings.beta)
        drawing.supxlabel(AXES[part], fontsize=8.5)
    return drawing


def _series(ax: Axes, e: Evidence, part: str, column: str, root: bool) -> None:
    colour = COLOURS[column[:3]]
    line = e.line(part)
    if line.x.size:
        theory_line(ax, line.x, np.sqrt(line[column]) if root else line[column], colour)
    found = e.over_seeds(part, column)
    errorbars(ax, e.points(part), [_root(x) for x in found] if root else found, colour)


def _root(found: Estimate) -> Estimate:
    """The root of a mean square and of the ends of its interval."""
    low, high = (
        math.sqrt(max(end, 0.0)) if math.isfinite(end) else math.nan
        for end in (found.low, found.high)
    )
    return Estimate(math.sqrt(found.value), low, high, found.n, found.method)


def _names(ax: Axes) -> None:
    """Both names in the colours of their series, above the panel."""
    for x, side, arm in ((0.0, "left", "one"), (1.0, "right", "two")):
        ax.text(
            x,
            1.03,
            WORDS[arm],
            color=COLOURS[arm],
            transform=ax.transAxes,
            va="bottom",
            ha=side,
            fontsize=8.5,
            fontweight="bold",
        )


def _limit(ax: Axes, e: Evidence) -> None:
    """Hard attention as a dotted line; the usual answer hollow, at the largest β."""
    limit = e.exact(VARIES, "limit")
    if math.isfinite(limit):
        ax.axhline(limit, color=PALETTE[0], linestyle=":", linewidth=1.1)
    top = max(e.settings.betas)
    published(ax, [top], [0.0], PALETTE[0])
    note(ax, "“never”", (top, 0.0), PALETTE[0], (-8, 0), ha="right", va="center")


def _noise_edge(axes: Sequence[Axes], beta: float) -> None:
    """Where the two scores of one head differ by 1, typically."""
    edge = 1 / (2 * beta) ** 2
    for ax in axes:
        ax.axvline(edge, color=NEUTRAL, linestyle=":", linewidth=1)
    top = {"xycoords": ("data", "axes fraction"), "ha": "right", "va": "top"}
    note(axes[0], "2β√α = 1", (edge, 0.97), NEUTRAL, (-4, 0), **top)
