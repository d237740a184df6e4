"""Pictures of slopes: a given example turned round, and random instances cooled."""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import NullLocator

from attnlab.lab.table import Row
from attnlab.report.labels import halo, note
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
from attnlab.studies.hard_attention.evidence import Evidence
from attnlab.studies.hard_attention.gradients import SHOWN, WHOM

STYLES = {1.0: ("-", 0.45), 0.3: ("-", 0.7), 0.1: ("-", 1.0)}
BAND = "#EFEFEF"


def staircase(e: Evidence) -> Drawing:
    """Plane, output, slope."""
    row = e.table.where(kind="given").rows[0]
    curves = row.curves
    with house_style():
        drawing, (plane, output, slope) = panels(1, 3, height=2.6)
        _plane(plane, row)
        angle = np.array(curves["angle"])
        for temperature in SHOWN:
            style, alpha = STYLES[temperature]
            look = {"color": PALETTE[1], "linestyle": style, "alpha": alpha, "linewidth": 1.3}
            output.plot(angle, curves[f"output_{temperature:g}"], **look)
            slope.plot(
                angle,
                np.abs(curves[f"slope_{temperature:g}"]),
                **look,
                label=f"T = {temperature:g}",
            )
        output.plot(angle, curves["argmax"], color=PALETTE[2], linewidth=1.8, drawstyle="steps-mid")
        slope.axhline(0, color=PALETTE[2], linewidth=1.8, label="argmax")
        output.set_ylabel("output")
        slope.set_ylabel("|slope| (output a degree)")
        for ax in (output, slope):
            ax.set_xticks([-180, -90, 0, 90, 180])
            ax.set_xlabel("direction of query (°)")
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
        ax.plot(
            [0, 3 * reach * np.cos(turn)],
            [0, 3 * reach * np.sin(turn)],
            color=PALETTE[2],
            linewidth=1.2,
            zorder=1,
        )
    ax.plot(*keys.T, "o", color=PALETTE[0], markersize=5, zorder=3)
    for key, value in zip(keys, row["values"], strict=True):
        look = {"fontweight": "bold", "path_effects": halo(2.0)}
        note(ax, number(value), key, PALETTE[0], (5, 4), **look)
    x, y = query / max(np.linalg.norm(query), 1e-9) * 0.8 * reach
    ax.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": NEUTRAL, "lw": 1.4})
    middle = (x / 2, y / 2)
    note(ax, "query", middle, NEUTRAL, (0, -10), ha="center", path_effects=halo(2.0))
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.set_aspect("equal")
    ax.grid(visible=False)
    ax.set_xlabel("first coordinate")
    ax.set_ylabel("second coordinate")


def slopes(e: Evidence) -> Drawing:
    """Query, keys, values: autograd and differences of three kinds."""
    temperatures = np.array(e.temperatures)
    zero = _zero(e)
    with house_style():
        drawing, axes = panels(1, 3, height=3.1, share_y=True)
        for ax, whom in zip(axes, WHOM, strict=True):
            _panel(ax, e, whom, temperatures, zero)
            ax.set_title(f"with respect to the {whom}")
        axes[0].set_ylabel("slope of the output (norm of the Jacobian)")
        _zero_band(axes[0], zero)
        for ax in axes[1:]:
            ax.axhspan(zero / 10, 10 * zero, color=BAND, zorder=0)
        words = (("softmax", PALETTE[1]), ("straight-through", PALETTE[0]), ("argmax", PALETTE[2]))
        for index, (text, colour) in enumerate(words):
            at = (0.05, 0.6 - 0.08 * index)
            note(axes[2], text, at, colour, xycoords="axes fraction", fontweight="bold")
        meaning = "filled: autograd\nhollow: finite\n            differences"
        note(axes[2], meaning, (0.05, 0.32), NEUTRAL, xycoords="axes fraction", va="top")
        drawing.supxlabel("temperature T (colder to the right)", fontsize=8.5)
    return drawing


def _panel(ax: Axes, e: Evidence, whom: str, temperatures: np.ndarray, zero: float) -> None:
    log_axis(ax, "x")
    ax.set_yscale("log")
    level = e.slope_curve(f"argmax_{whom}")[0].value
    ax.axhline(max(level, zero), color=PALETTE[2], linewidth=2.2, zorder=1)
    cut = [replace(x, low=max(x.low, 10 * zero)) for x in e.slope_curve(f"softmax_{whom}")]
    errorbars(ax, temperatures, cut, PALETTE[1])
    for kind, colour, marker, size in (
        ("softmax", PALETTE[1], "o", 5.5),
        ("straight-through", PALETTE[0], "s", 2.6),
    ):
        value = np.array([max(x.value, zero) for x in e.slope_curve(f"{kind}_{whom}")])
        ax.plot(temperatures, value, marker, color=colour, markersize=size, zorder=4)
        # the middle set: a mean of logarithms does not exist where differences find 0
        other = np.median(e.medians(f"{kind}_{whom}_difference"), axis=0)
        ax.plot(
            temperatures,
            np.maximum(other, zero),
            marker,
            color=colour,
            zorder=3,
            markersize=size + 2.5,
            markerfacecolor="none",
            markeredgewidth=0.9,
        )
    ax.set_xlim(1.4 * temperatures.max(), temperatures.min() / 1.4)


def _zero(e: Evidence) -> float:
    """Where 0 is drawn: two decades below the smallest slope that is not 0."""
    least = min(x.value for whom in WHOM for x in e.slope_curve(f"softmax_{whom}"))
    return 10.0 ** (np.floor(np.log10(max(least, 1e-300))) - 2)


def _zero_band(ax: Axes, zero: float) -> None:
    """Decades above, one band for 0 below: a log axis has no place for it."""
    top = 1
    step = max(1, round((top - np.log10(zero) - 2) / 6))
    powers = [p for p in range(top, int(np.log10(zero)) + 1, -step)]
    ax.set_yticks(
        [10.0**p for p in powers] + [zero], [f"$10^{{{p}}}$" if p else "1" for p in powers] + ["0"]
    )
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_ylim(zero / 10, 30)
    ax.axhspan(zero / 10, 10 * zero, color=BAND, zorder=0)


def carried(e: Evidence) -> Drawing:
    """Median against mean; share of instances that carry the slope."""
    temperatures = np.array(e.temperatures)
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.7)
        for name, colour in (("mean", PALETTE[1]), ("median", PALETTE[0])):
            found = e.slope_curve(f"formula_{name}")
            errorbars(left, temperatures, found, colour)
            values = np.array([x.value for x in found])
            left.plot(temperatures, values, color=colour, linewidth=0.9)
            direct_label(left, temperatures, values, name, colour)
        errorbars(right, temperatures, e.slope_curve("formula_share"), NEUTRAL)
        for ax in (left, right):
            log_axis(ax, "x")
            ax.set_xlim(1.3 * temperatures.max(), temperatures.min() / 1.3)
            ax.set_xlabel("temperature T (colder to the right)")
        left.set_yscale("log")
        left.set_xlim(1.3 * temperatures.max(), temperatures.min() / 4)
        log_axis(right, "y")
        left.set_ylabel("slope of the output (query)")
        right.set_ylabel("share of instances that carries\nhalf of the squared slope")
    return drawing
