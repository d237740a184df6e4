"""Pictures of the task: learning curves, accuracy by arm, accuracy by learning rate."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.table import Table
from attnlab.measure.intervals import Estimate
from attnlab.measure.shares import share_interval
from attnlab.report.labels import note
from attnlab.report.plots import Curve, Series, dot, draw_curve
from attnlab.report.style import (
    NEUTRAL,
    PALETTE,
    direct_label,
    errorbars,
    house_style,
    log_axis,
    panels,
)
from attnlab.studies.hard_attention.evidence import (
    ANNEALED,
    COLD,
    HARD,
    HARD_FIXED,
    OFF,
    SOFT,
    THROUGH,
    Evidence,
)

LOOKS: Mapping[str, tuple[str, str, str]] = {  # colour, line, marker
    SOFT: (PALETTE[1], "-", "o"),
    ANNEALED: (PALETTE[1], "--", "v"),
    COLD: (PALETTE[1], ":", "P"),
    THROUGH: (PALETTE[0], "-", "s"),
    HARD: (PALETTE[2], "-", "^"),
    HARD_FIXED: (PALETTE[2], "--", "D"),
    OFF: (NEUTRAL, "-", "X"),
}
RULES = {"chance": "chance", "one_item": "one item", "most_frequent": "most frequent value"}
ROW = 0.3  # inches a line of a dot plot


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
        ax.set_ylim(0, 1.1)
        beside = ax.secondary_yaxis("right")
        beside.set_yticks([e.baseline(name) for name in RULES], list(RULES.values()))
        beside.tick_params(length=0, labelcolor=NEUTRAL)
        beside.spines["right"].set_visible(False)
        ax.set_xlabel("training step")
        ax.set_ylabel("accuracy on dev rows")
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
            _singles(left, line - 0.3, list(e.values(arm, "accuracy").values()), colour)
            dot(left, line + 0.22, e.estimate(arm, "hard_accuracy"), hollow)
            dot(right, line - 0.12, e.estimate(arm, "found"), filled)
            dot(right, line + 0.22, e.estimate(arm, "found_start"), hollow)
        for level, (name, words) in enumerate(RULES.items()):
            value = e.baseline(name)
            left.axvline(value, color=NEUTRAL, linestyle=":", linewidth=1.0, zorder=0)
            shift, above = (0, 3 + 10 * level), ("data", "axes fraction")
            note(left, words, (value, 1.0), NEUTRAL, shift, xycoords=above)
        left.set_yticks(range(len(names)), names)
        left.set_ylim(len(names) - 0.4, -0.6)
        for ax in (left, right):
            ax.tick_params(axis="y", length=0)
        left.set_xlabel("test accuracy")
        right.set_xlabel("share of items found")
        for ax in (left, right):
            ax.set_xlim(-0.02, 1.04)
    return drawing


def _singles(ax: Axes, at: float, values: list[float], colour: str) -> None:
    ax.plot(values, [at] * len(values), "|", color=colour, markersize=5, alpha=0.8, zorder=2)


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
            found = [_accuracy(rows) for rows in tables.values()]
            errorbars(ax, rates, found, colour, marker=marker)
            values = np.array([x.value for x in found])
            ax.plot(rates, values, marker, color=colour, linestyle=line, linewidth=0.9, zorder=4)
            direct_label(ax, [edge], values[-1:], arm, colour)
        log_axis(ax, "x")
        low, high = ax.get_xlim()
        ax.set_xlim(low, high * (high / low) ** 0.42)
        ax.set_xticks(every, [f"{rate:g}" for rate in every])
        ax.minorticks_off()
        ax.set_ylim(0, 1.08)
        ax.set_xlabel("learning rate")
        ax.set_ylabel("test accuracy")
    return drawing


def _accuracy(rows: Table) -> Estimate:
    """Test accuracy of the models that ended, over seeds and test rows."""
    known = [row for row in rows if row.get("accuracy") is not None]
    return share_interval([(row["accuracy"] * row["scored"], row["scored"]) for row in known])
