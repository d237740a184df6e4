"""The exercise's keys in any dimension: their scores with each other, the length a weight costs."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.table import Table
from attnlab.report.style import MARKERS, NEUTRAL, PALETTE, direct_label, house_style, panels
from attnlab.studies.attention_design.study import DesignSettings

NUMBERED = 8  # keys whose products are printed in their cells


def draw_lengths(exercise: Table, settings: DesignSettings) -> Drawing:
    """Left: k_i·k_j. Right: the shortest query that gives each selectable key a weight."""
    keys = np.array(settings.keys, dtype=float)
    curves = exercise.rows[0].curves
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.0)
        _products(left, keys @ keys.T)
        weight = np.array(curves["weight"])
        odds = weight / (1 - weight)
        for j in range(len(keys)):
            if f"shortest {j}" in curves:
                colour = PALETTE[j % len(PALETTE)]
                marker = list(MARKERS.values())[j % len(MARKERS)]
                lengths = np.array(curves[f"shortest {j}"])
                right.plot(odds, lengths, marker, linestyle="-", color=colour, markersize=4)
                direct_label(right, odds, lengths, f"key {j}", colour)
        right.set_xscale("log")
        right.set_xlabel("odds of the key, w / (1 − w)")
        right.set_ylabel("norm of the shortest query")
    return drawing


def _products(ax: Axes, products: np.ndarray) -> None:
    top = float(np.abs(products).max()) or 1.0
    ax.pcolormesh(products, cmap="RdBu_r", vmin=-1.6 * top, vmax=1.6 * top, rasterized=True)
    count = len(products)
    ax.set_ylim(count, 0)
    ax.set_aspect("equal")
    ax.grid(visible=False)
    ax.set_title(r"products $k_i \cdot k_j$", color=NEUTRAL)
    if count > NUMBERED:
        return
    places = [i + 0.5 for i in range(count)]
    ax.set_xticks(places, [f"k{i}" for i in range(count)])
    ax.set_yticks(places, [f"k{i}" for i in range(count)])
    ax.tick_params(length=0)
    for (i, j), product in np.ndenumerate(products):
        text = f"{product:.2f}".replace("-", "−")
        ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=8)
