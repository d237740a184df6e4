"""The draws themselves, the distribution of the output; the list of all figures."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Rectangle

from attnlab.lab.study import Figure
from attnlab.measure.intervals import mean_interval
from attnlab.report.labels import note
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import (
    NEUTRAL,
    PALETTE,
    errorbars,
    house_style,
    panels,
    theory_line,
)
from attnlab.studies.head_robustness.evidence import Evidence
from attnlab.studies.head_robustness.plan import BETA, NOISE, SPREAD, VARIES
from attnlab.studies.head_robustness.study import HeadRobustness
from attnlab.studies.head_robustness.sweeps import COLOURS, WORDS, draw_sweep
from attnlab.studies.head_robustness.trial import ARMS, BINS, FINE

EACH = 3  # of the bins' edges has a point in the cumulative panel


def figures(study: HeadRobustness, e: Evidence) -> list[Figure]:
    """Everything the report shows, in its order; a figure without trials is left out."""
    shown = [row.id for row in e.drawn(VARIES) if row["shown"]]
    drawn: dict[str, Drawn] = {
        "draws": (partial(_draws, e), shown),
        "distribution": (partial(_distribution, e), _trials(e, VARIES)),
        **{
            f"against-{part}": (partial(draw_sweep, e, part), _trials(e, part))
            for part in (BETA, SPREAD, NOISE)
        },
    }
    return with_words(study, drawn, bins=BINS)


def _trials(e: Evidence, part: str) -> tuple[str, ...]:
    """The trials of a part, simulated and exact; none where nothing was simulated."""
    return e.ids(part) if len(e.drawn(part)) else ()


def _draws(e: Evidence) -> Drawing:
    row = next(row for row in e.drawn(VARIES) if row["shown"])
    arrays = row.arrays
    with house_style():
        drawing, (left, middle, right) = panels(1, 3, height=2.75)
        _keys(left, arrays)
        for ax, arm in ((middle, "one"), (right, "two")):
            _outputs(ax, arrays[f"{arm}_output"], arm, e.settings.tolerance)
    return drawing


def _keys(ax: Axes, arrays: Any) -> None:
    keys = arrays["keys"]
    a, b = keys[:, 0], keys[:, 1]
    ax.axhline(0, color=NEUTRAL, linewidth=0.6)
    ax.axvline(0, color=NEUTRAL, linewidth=0.6)
    generator = np.random.default_rng(0)  # for the picture only: dots on one line hide each other
    lift = generator.uniform(-0.09, 0.09, len(a))
    ax.scatter(a[:, 0], a[:, 1] + lift, s=5, color=NEUTRAL, alpha=0.35, linewidth=0)
    ax.scatter(b[:, 0], b[:, 1], s=14, color="black", linewidth=0, zorder=3)
    if keys.shape[1] > 2:
        ax.scatter([0], [0], s=14, color="black", linewidth=0, zorder=3)
        note(ax, "other keys", (0, 0), "black", (5, -14))
    note(ax, "$k_b$", (0, 1), "black", (-16, -3))
    note(ax, "$k_a$: its length varies", (1, 0), NEUTRAL, (-21, -24))
    for end, colour, words, shift in (
        ((0.62, 0.62), PALETTE[1], "one head asks\n$μ_a + μ_b$", (2, 2)),
        ((0.75, 0.0), PALETTE[0], "", (0, 0)),
        ((0.0, 0.75), PALETTE[0], "two heads ask\n$μ_a$ and $μ_b$", (4, 21)),
    ):
        ax.annotate("", end, (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.6})
        note(ax, words, end, colour, shift)
    ax.set_xlim(min(-1.6, float(a[:, 0].min()) - 0.1), max(3.4, float(a[:, 0].max()) + 0.1))
    ax.set_ylim(-0.95, 1.75)
    ax.set_xlabel("key along $μ_a$")
    ax.set_ylabel("key along $μ_b$")
    ax.set_title("keys")


def _outputs(ax: Axes, output: Any, arm: str, tolerance: float) -> None:
    low, side = 0.5 - tolerance, 2 * tolerance
    ax.add_patch(
        Rectangle(
            (low, low),
            side,
            side,
            facecolor="#EFEFEF",
            edgecolor="#BBBBBB",
            linewidth=0.6,
            zorder=0.5,
        )
    )
    generator = np.random.default_rng(1)  # as above
    lift = generator.uniform(-0.035, 0.035, output.shape)
    ax.scatter(
        output[:, 0] + lift[:, 0],
        output[:, 1] + lift[:, 1],
        s=6,
        color=COLOURS[arm],
        alpha=0.3,
        linewidth=0,
    )
    ax.plot(0.5, 0.5, "+", color="black", markersize=9, markeredgewidth=1.3, zorder=4)
    off = float((np.abs(output - 0.5) > tolerance).any(axis=1).mean())
    corner: dict[str, Any] = {"xycoords": "axes fraction", "ha": "right", "va": "top"}
    note(ax, f"{100 * off:.0f} % of these\nare off", (0.97, 0.97), COLOURS[arm], **corner)
    ax.set_xlim(-0.09, 1.09)
    ax.set_ylim(-0.09, 1.09)
    ax.set_xticks([0, 0.5, 1])
    ax.set_yticks([0, 0.5, 1])
    ax.set_xlabel("output along $v_a$")
    ax.set_ylabel("output along $v_b$")
    ax.set_title(WORDS[arm])


def _distribution(e: Evidence) -> Drawing:
    rows, line = e.drawn(VARIES), e.line(VARIES)
    edges = np.linspace(0, 1, BINS + 1)
    with house_style():
        drawing, axes = panels(1, 3, height=2.7)
        for ax, arm in zip(axes, ARMS, strict=False):
            low = 0.5 - e.settings.tolerance
            for start in (0.0, 1 - low):
                ax.axvspan(start, start + low, color="#F1F1F1", zorder=0.4, linewidth=0)
            if line.x.size:
                exact = np.diff(line[f"{arm}_below"][::FINE])
                ax.stairs(exact, edges, color=COLOURS[arm], linewidth=1.5, zorder=2)
            found = np.array([row.curves[f"{arm}_bins"] for row in rows])
            middles = (edges[1:] + edges[:-1]) / 2
            errorbars(ax, middles, [mean_interval(found[:, i]) for i in range(BINS)], COLOURS[arm])
            ax.set_title(WORDS[arm])
            ax.set_ylim(0, 1)
            ax.set_xlabel("weight of $v_a$ in the output")
        axes[0].set_ylabel("share of outputs, a bin")
        _cumulative(axes[2], e)
    return drawing


def _cumulative(ax: Axes, e: Evidence) -> None:
    line, rows = e.line(VARIES), e.drawn(VARIES)
    edges = np.linspace(0, 1, BINS + 1)[::EACH]
    for arm, place in (("one", (0.57, 0.42)), ("two", (0.55, 0.9))):
        if line.x.size:
            theory_line(ax, line["weight"], line[f"{arm}_below"], COLOURS[arm])
        below = np.cumsum([[0.0, *row.curves[f"{arm}_bins"]] for row in rows], axis=1)
        found = below[:, ::EACH]
        estimates = [mean_interval(found[:, i]) for i in range(len(edges))]
        errorbars(ax, edges, estimates, COLOURS[arm])
        note(ax, WORDS[arm], place, COLOURS[arm])
    ax.set_ylim(0, 1.03)
    ax.set_xlabel("weight $w$ of $v_a$ in the output")
    ax.set_ylabel("P(weight < $w$)")
    ax.set_title("both, cumulative")
