"""Figures: the staircase, slopes against temperature, who carries them, learning, accuracy, rates.

Slopes are of a given example turned round and of random instances cooled; the rest is the task.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import NullLocator

from attnlab.lab.arms import Arms
from attnlab.lab.study import Figure
from attnlab.lab.table import Row
from attnlab.report.labels import halo, note, write
from attnlab.report.plots import Curve, Series, dot, draw_curve, draw_estimates, name_lines
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import (
    NEUTRAL,
    PALETTE,
    direct_label,
    errorbars,
    house_style,
    log_axis,
    panels,
)
from attnlab.report.text import number
from attnlab.studies.hard_attention.gradients import SHOWN, WHOM
from attnlab.studies.hard_attention.study import (
    ANNEALED,
    COLD,
    HARD,
    HARD_FIXED,
    OFF,
    SOFT,
    THROUGH,
    Evidence,
    HardAttention,
)

BLUE, RED, ORANGE = PALETTE[:3]
BAND = "#EFEFEF"
LOOKS: Mapping[str, tuple[str, str, str]] = {  # colour, line, marker
    SOFT: (RED, "-", "o"),
    ANNEALED: (RED, "--", "v"),
    COLD: (RED, ":", "P"),
    THROUGH: (BLUE, "-", "s"),
    HARD: (ORANGE, "-", "^"),
    HARD_FIXED: (ORANGE, "--", "D"),
    OFF: (NEUTRAL, "-", "X"),
}
RULES = {"chance": "chance", "one_item": "one item", "most_frequent": "most frequent value"}
ROW = 0.3  # inches a line of a dot plot


def figures(study: HardAttention, e: Evidence) -> list[Figure]:
    """What the report shows, in its order; a figure without trials is left out."""
    drawn: dict[str, Drawn] = {
        "staircase": (partial(staircase, e), e.table.where(kind="given").ids),
        "slopes": (partial(slopes, e), e.slopes.ids),
        "carried": (partial(carried, e), e.slopes.ids),
        "learning": (partial(learning, e), e.ids()),
        "accuracy": (partial(accuracy, e), e.ids()),
        "rates": (partial(by_rate, e), e.table.where(kind="model").ids),
    }
    return with_words(study, drawn)


def staircase(e: Evidence) -> Drawing:
    """Plane, output, slope."""
    row = e.table.where(kind="given").rows[0]
    curves = row.curves
    with house_style():
        drawing, (plane, output, slope) = panels(1, 3, height=2.6)
        _plane(plane, row)
        angle = np.array(curves["angle"])
        for t, alpha in zip(SHOWN, (0.45, 0.7, 1.0), strict=True):
            look = {"color": RED, "alpha": alpha, "linewidth": 1.3}
            output.plot(angle, curves[f"output_{t:g}"], **look)
            slope.plot(angle, np.abs(curves[f"slope_{t:g}"]), **look, label=f"T = {t:g}")
        output.plot(angle, curves["argmax"], color=ORANGE, linewidth=1.8, drawstyle="steps-mid")
        slope.axhline(0, color=ORANGE, linewidth=1.8, label="argmax")
        for ax, words in ((output, "output"), (slope, "|slope| (output a degree)")):
            ax.set_xticks([-180, -90, 0, 90, 180])
            ax.set(xlabel="direction of query (°)", ylabel=words)
        slope.legend(loc="upper right", handlelength=1.2, labelspacing=0.25, borderaxespad=0.1)
        slope.set_ylim(top=1.35 * slope.get_ylim()[1])
    return drawing


def _plane(ax: Axes, row: Row) -> None:
    """Keys as points with their values; rays where argmax turns to another key; the query."""
    keys, query = np.array(row["keys"]), np.array(row["query"])
    angle, picked = np.array(row.curves["angle"]), np.array(row.curves["picked"]).astype(int)
    reach = 1.35 * max(1e-9, float(np.abs(keys).max()))
    turns = angle[:-1][np.diff(picked) != 0] + (angle[1] - angle[0]) / 2
    for turn in np.radians(turns):
        x, y = [0, 3 * reach * np.cos(turn)], [0, 3 * reach * np.sin(turn)]
        ax.plot(x, y, color=ORANGE, linewidth=1.2, zorder=1)
    ax.plot(*keys.T, "o", color=BLUE, markersize=5, zorder=3)
    for key, value in zip(keys, row["values"], strict=True):
        note(ax, number(value), key, BLUE, (5, 4), fontweight="bold", path_effects=halo(2.0))
    x, y = query / max(np.linalg.norm(query), 1e-9) * 0.8 * reach
    ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": NEUTRAL, "lw": 1.4})
    middle = (x / 2, y / 2)
    note(ax, "query", middle, NEUTRAL, (0, -10), ha="center", path_effects=halo(2.0))
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal")
    ax.set(xlabel="first coordinate", ylabel="second coordinate")
    ax.grid(visible=False)


def slopes(e: Evidence) -> Drawing:
    """Query, keys, values: autograd and differences of three kinds."""
    least = min(x.value for whom in WHOM for x in e.slope_curve(f"softmax_{whom}"))
    zero = 10.0 ** (np.floor(np.log10(max(least, 1e-300))) - 2)  # where 0 is drawn
    with house_style():
        drawing, axes = panels(1, 3, height=3.1, share_y=True)
        for ax, whom in zip(axes, WHOM, strict=True):
            _slopes_of(ax, e, whom, zero)
            ax.set_title(f"with respect to the {whom}")
        axes[0].set_ylabel("slope of the output (norm of the Jacobian)")
        _ticks_with_zero(axes[0], zero)
        for ax in axes:
            ax.axhspan(zero / 10, 10 * zero, color=BAND, zorder=0)
        words = (("softmax", RED), ("straight-through", BLUE), ("argmax", ORANGE))
        for index, (text, colour) in enumerate(words):
            at = (0.05, 0.6 - 0.08 * index)
            note(axes[2], text, at, colour, xycoords="axes fraction", fontweight="bold")
        meaning = "filled: autograd\nhollow: finite\n            differences"
        write(axes[2], 0.05, 0.32, meaning, NEUTRAL)
        drawing.supxlabel("temperature T (colder to the right)", fontsize=8.5)
    return drawing


def _slopes_of(ax: Axes, e: Evidence, whom: str, zero: float) -> None:
    """Lines and points of one argument; what is 0 lies at `zero`."""
    temperatures = np.array(e.temperatures)
    log_axis(ax, "x")
    ax.set_yscale("log")
    level = e.slope_curve(f"argmax_{whom}")[0].value
    ax.axhline(max(level, zero), color=ORANGE, linewidth=2.2, zorder=1)
    cut = [replace(x, low=max(x.low, 10 * zero)) for x in e.slope_curve(f"softmax_{whom}")]
    errorbars(ax, temperatures, cut, RED)
    for kind, colour, marker, size in (
        ("softmax", RED, "o", 5.5),
        ("straight-through", BLUE, "s", 2.6),
    ):
        value = np.array([max(x.value, zero) for x in e.slope_curve(f"{kind}_{whom}")])
        ax.plot(temperatures, value, marker, color=colour, markersize=size, zorder=4)
        # the middle set: a mean of logarithms does not exist where differences find 0
        other = np.maximum(np.median(e.medians(f"{kind}_{whom}_difference"), axis=0), zero)
        hollow = {"markersize": size + 2.5, "markerfacecolor": "none", "markeredgewidth": 0.9}
        ax.plot(temperatures, other, marker, color=colour, zorder=3, **hollow)
    ax.set_xlim(1.4 * temperatures.max(), temperatures.min() / 1.4)


def _ticks_with_zero(ax: Axes, zero: float) -> None:
    """Decades above, 0 two decades below the smallest slope: a log axis has no place for it."""
    step = max(1, round((-np.log10(zero) - 1) / 6))
    powers = range(1, int(np.log10(zero)) + 1, -step)
    labels = [f"$10^{{{p}}}$" if p else "1" for p in powers]
    ax.set_yticks([*(10.0**p for p in powers), zero], [*labels, "0"])
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_ylim(zero / 10, 30)


def carried(e: Evidence) -> Drawing:
    """Median against mean; share of instances that carry the slope."""
    temperatures = np.array(e.temperatures)
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.7)
        for name, colour in (("mean", RED), ("median", BLUE)):
            found = dict(zip(e.temperatures, e.slope_curve(f"formula_{name}"), strict=True))
            draw_estimates(left, found, colour, name, line=0.9)
        errorbars(right, temperatures, e.slope_curve("formula_share"), NEUTRAL)
        for ax in (left, right):
            log_axis(ax, "x")
            ax.set_xlim(1.3 * temperatures.max(), temperatures.min() / (4 if ax is left else 1.3))
            ax.set_xlabel("temperature T (colder to the right)")
        left.set(yscale="log", ylabel="slope of the output (query)")
        log_axis(right, "y")
        right.set_ylabel("share of instances that carries\nhalf of the squared slope")
    return drawing


def learning(e: Evidence) -> Drawing:
    """Dev accuracy against steps; names at the right end."""
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.4)
        last = 0.0
        for arm in e.names():
            colour, line, _ = LOOKS[arm]
            steps, estimates = e.curve(arm, "step", "accuracy")
            draw_curve(ax, Curve(arm, colour, steps, estimates, line), (0, 1))
            last = max(last, float(steps[-1]))
        for name in RULES:
            ax.axhline(e.baseline(name), color=NEUTRAL, linestyle=":", linewidth=1.0)
        ax.set_xlim(0, 1.5 * last)
        ax.set_xticks([t for t in ax.get_xticks() if t <= last])
        ax.set(ylim=(0, 1.1), xlabel="training step", ylabel="accuracy on dev rows")
        beside = ax.secondary_yaxis("right")
        beside.set_yticks([e.baseline(name) for name in RULES], list(RULES.values()))
        beside.tick_params(length=0, labelcolor=NEUTRAL)
        beside.spines["right"].set_visible(False)
    return drawing


def accuracy(e: Evidence) -> Drawing:
    """Accuracy with baselines; items found before and after."""
    names = e.names()
    with house_style():
        drawing, (left, right) = panels(1, 2, height=1.1 + ROW * len(names), share_y=True)
        for line, arm in enumerate(names):
            colour, _, marker = LOOKS[arm]
            filled, hollow = Series("", colour, marker), Series("", colour, marker, hollow=True)
            dot(left, line - 0.12, e.estimate(arm, "accuracy"), filled)
            single, mark = list(e.values(arm, "accuracy").values()), {"markersize": 5, "alpha": 0.8}
            left.plot(single, [line - 0.3] * len(single), "|", color=colour, zorder=2, **mark)
            dot(left, line + 0.22, e.estimate(arm, "hard_accuracy"), hollow)
            dot(right, line - 0.12, e.estimate(arm, "found"), filled)
            dot(right, line + 0.22, e.estimate(arm, "found_start"), hollow)
        for level, (name, words) in enumerate(RULES.items()):
            value = e.baseline(name)
            left.axvline(value, color=NEUTRAL, linestyle=":", linewidth=1.0, zorder=0)
            shift, above = (0, 3 + 10 * level), ("data", "axes fraction")
            note(left, words, (value, 1.0), NEUTRAL, shift, xycoords=above)
        for ax, words in ((left, "test accuracy"), (right, "share of items found")):
            name_lines(ax, names, room=0.6)
            ax.set(xlabel=words, xlim=(-0.02, 1.04))
    return drawing


def by_rate(e: Evidence) -> Drawing:
    """One line an arm."""
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.0)
        names, every = e.names(), sorted({rate for arm in e.names() for rate in e.by_rate(arm)})
        apart = 1.035  # side by side, so that intervals at the same rate do not cover each other
        edge = every[-1] * apart ** (len(names) / 2)
        for index, arm in enumerate(names):
            colour, line, marker = LOOKS[arm]
            tables = e.by_rate(arm)
            rates = np.array(list(tables)) * apart ** (index - (len(names) - 1) / 2)
            found = [
                Arms(rows, e.labels, shares=e.shares).estimate(arm, "accuracy")
                for rows in tables.values()
            ]
            errorbars(ax, rates, found, colour, marker=marker)
            values = np.array([x.value for x in found])
            ax.plot(rates, values, marker, color=colour, linestyle=line, linewidth=0.9, zorder=4)
            direct_label(ax, [edge], values[-1:], arm, colour)
        log_axis(ax, "x", {rate: f"{rate:g}" for rate in every})
        low, high = ax.get_xlim()
        ax.set_xlim(low, high * (high / low) ** 0.42)
        ax.set(ylim=(0, 1.08), xlabel="learning rate", ylabel="test accuracy")
    return drawing
