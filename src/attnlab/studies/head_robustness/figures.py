"""The draws themselves, the distribution of the output, and sweeps: lines exact, points drawn."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Rectangle

from attnlab.lab.study import Figure
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.report.labels import note, write
from attnlab.report.prose import Drawn, with_words
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
from attnlab.studies.head_robustness.study import (
    ARMS,
    BETA,
    NOISE,
    SPREAD,
    SWEPT,
    VARIES,
    Evidence,
    HeadRobustness,
)
from attnlab.studies.head_robustness.trial import BINS, FINE

EACH = 3  # of the bins' edges has a point in the cumulative panel
COLOURS = {"one": PALETTE[1], "two": PALETTE[0]}
WORDS = {"one": "one head", "two": "two heads"}
PANELS = (  # of a sweep: name, label, top of the axis, alike where figures are compared
    ("off", "share of outputs off", 1.05),
    ("variance_a", "std. deviation along $v_a$", 0.55),
    ("square", "r.m.s. distance from average", 0.75),
)
AXES = {
    BETA: "size β of the queries",
    SPREAD: "variance of the length of $k_a$",
    NOISE: "variance α of every key",
}


def figures(study: HeadRobustness, e: Evidence) -> list[Figure]:
    """Everything the report shows, in its order; a figure without trials is left out."""
    shown = [row.id for row in e.drawn(VARIES) if row["shown"]]
    trials = {part: e.ids(part) if e.points(part) else () for part in SWEPT}
    sweeps = {f"against-{part}": (partial(_sweep, e, part), trials[part]) for part in AXES}
    drawn: dict[str, Drawn] = {
        "draws": (partial(_draws, e), shown),
        "distribution": (partial(_distribution, e), trials[VARIES]),
        **sweeps,
    }
    return with_words(study, drawn, bins=BINS)


def _draws(e: Evidence) -> Drawing:
    arrays = next(row for row in e.drawn(VARIES) if row["shown"]).arrays
    with house_style():
        drawing, (left, middle, right) = panels(1, 3, height=2.75)
        _keys(left, arrays["keys"])
        for ax, arm in ((middle, "one"), (right, "two")):
            _outputs(ax, arrays[f"{arm}_output"], arm, e.settings.tolerance)
    return drawing


def _keys(ax: Axes, keys: np.ndarray) -> None:
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
    ax.set(title="keys", xlabel="key along $μ_a$", ylabel="key along $μ_b$")


def _outputs(ax: Axes, output: np.ndarray, arm: str, tolerance: float) -> None:
    low, side, look = 0.5 - tolerance, 2 * tolerance, {"facecolor": "#EFEFEF", "linewidth": 0.6}
    ax.add_patch(Rectangle((low, low), side, side, edgecolor="#BBBBBB", zorder=0.5, **look))
    generator = np.random.default_rng(1)  # as above
    x, y = (output + generator.uniform(-0.035, 0.035, output.shape)).T
    ax.scatter(x, y, s=6, color=COLOURS[arm], alpha=0.3, linewidth=0)
    ax.plot(0.5, 0.5, "+", color="black", markersize=9, markeredgewidth=1.3, zorder=4)
    off = float((np.abs(output - 0.5) > tolerance).any(axis=1).mean())
    write(ax, 0.97, 0.97, f"{100 * off:.0f} % of these\nare off", COLOURS[arm])
    ticks, ends = [0, 0.5, 1], (-0.09, 1.09)
    ax.set(xlim=ends, ylim=ends, xticks=ticks, yticks=ticks)
    ax.set(title=WORDS[arm], xlabel="output along $v_a$", ylabel="output along $v_b$")


def _distribution(e: Evidence) -> Drawing:
    rows, line, low = e.drawn(VARIES), e.line(VARIES), 0.5 - e.settings.tolerance
    edges = np.linspace(0, 1, BINS + 1)
    with house_style():
        drawing, (*both, cumulative) = panels(1, 3, height=2.7)
        for ax, arm in zip(both, ARMS, strict=True):
            for start in (0.0, 1 - low):
                ax.axvspan(start, start + low, color="#F1F1F1", zorder=0.4, linewidth=0)
            if line:
                exact = np.diff(line[f"{arm}_below"][::FINE])
                ax.stairs(exact, edges, color=COLOURS[arm], linewidth=1.5, zorder=2)
            found = np.array([row.curves[f"{arm}_bins"] for row in rows])
            middles = (edges[1:] + edges[:-1]) / 2
            errorbars(ax, middles, [mean_interval(share) for share in found.T], COLOURS[arm])
            ax.set(title=WORDS[arm], ylim=(0, 1), xlabel="weight of $v_a$ in the output")
        both[0].set_ylabel("share of outputs, a bin")
        for arm, place in (("one", (0.57, 0.42)), ("two", (0.55, 0.9))):
            if line:
                theory_line(cumulative, line["weight"], line[f"{arm}_below"], COLOURS[arm])
            below = np.cumsum([[0.0, *row.curves[f"{arm}_bins"]] for row in rows], axis=1)
            estimates = [mean_interval(share) for share in below[:, ::EACH].T]
            errorbars(cumulative, edges[::EACH], estimates, COLOURS[arm])
            note(cumulative, WORDS[arm], place, COLOURS[arm])
        cumulative.set(title="both, cumulative", ylim=(0, 1.03))
        cumulative.set(xlabel="weight $w$ of $v_a$ in the output", ylabel="P(weight < $w$)")
    return drawing


def _sweep(e: Evidence, part: str) -> Drawing:
    """Three panels on one axis: share off, spread and distance of the output."""
    line, points = e.line(part), e.points(part)
    with house_style():
        drawing, axes = panels(1, 3, height=2.7)
        for ax, (name, words, top) in zip(axes, PANELS, strict=True):
            for arm, colour in COLOURS.items():
                column, root = f"{arm}_{name}", name != "off"
                if line:
                    exact = np.sqrt(line[column]) if root else line[column]
                    theory_line(ax, line["x"], exact, colour)
                found = [e.estimate(part, column, x) for x in points]
                errorbars(ax, points, [_root(x) for x in found] if root else found, colour)
            log_axis(ax, "x")
            highest = max(top, ax.get_ylim()[1])
            ax.set(ylabel=words, ylim=(-0.06 * highest, highest))
        for x, side, arm in ((0.0, "left", "one"), (1.0, "right", "two")):
            look = {"color": COLOURS[arm], "fontsize": 8.5, "fontweight": "bold"}
            above = axes[1].transAxes
            axes[1].text(x, 1.03, WORDS[arm], transform=above, va="bottom", ha=side, **look)
        if part == BETA:
            _limit(axes[0], e)
        if part == NOISE:
            _noise_edge(axes, e.settings.beta)
        drawing.supxlabel(AXES[part], fontsize=8.5)
    return drawing


def _root(found: Estimate) -> Estimate:
    """The root of a mean square and of the ends of its interval."""
    low, high = (
        math.sqrt(max(end, 0.0)) if math.isfinite(end) else math.nan
        for end in (found.low, found.high)
    )
    return Estimate(math.sqrt(found.value), low, high, found.n, found.method)


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
