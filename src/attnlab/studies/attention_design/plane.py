"""The exercise drawn: keys, hull, regions of queries, and weights as bars."""

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.table import Table
from attnlab.report.style import NEUTRAL, PALETTE, house_style, panels
from attnlab.studies.attention_design.study import DesignSettings, exercise_parts

GRID = 241
ROW = 0.36  # inches per row of bars
REACHED, SHORT = PALETTE[1], "#AAAAAA"
Queries = dict[int, np.ndarray]  # key -> the shortest query that selects it


def draw_plane(table: Table, settings: DesignSettings) -> Drawing:
    """Keys and hull on the left; regions of queries with the shortest queries on the right."""
    keys = np.array(settings.keys, dtype=float)
    parts = exercise_parts(table)
    selections = {j: parts[f"select {j}"] for j in range(len(keys))}
    queries = {j: np.array(s["query"]) for j, s in selections.items() if s["feasible"]}
    colours = [colormaps["Set2"](j % 8) for j in range(len(keys))]
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.4)
        _keys(left, keys, queries, colours)
        _regions(right, keys, queries, colours)
        for ax, what in ((left, "a key"), (right, "the query")):
            ax.set_aspect("equal")
            ax.set_xlabel(f"first coordinate of {what}")
            ax.set_ylabel("second coordinate")
    return drawing


def _keys(ax: Axes, keys: np.ndarray, queries: Queries, colours: list[Any]) -> None:
    from scipy.spatial import ConvexHull

    corners = keys[ConvexHull(keys).vertices]
    ax.fill(*corners.T, facecolor="#F2F2F2", edgecolor=NEUTRAL, linewidth=0.8, zorder=1)
    size = np.abs(keys).max()
    for j, key in enumerate(keys):
        ax.plot(*key, "o", color=colours[j], markersize=9, markeredgecolor="#333333", zorder=3)
        inner = j not in queries
        away = np.array([0.11, 0.0]) if inner else 0.09 * np.sign(key + 1e-9)
        side = "left" if inner or key[0] >= 0 else "right"
        text = f"k{j}, inside" if inner else f"k{j}"
        ax.annotate(text, key + away * size, ha=side, va="center", fontsize=8.5)
    for j, query in queries.items():
        tip = query / np.linalg.norm(query) * 0.55 * size
        arrow = {"arrowstyle": "->", "color": colours[j], "linewidth": 1.8}
        ax.annotate("", tip, (0, 0), arrowprops=arrow)
    ax.set_xlim(-1.5 * size, 1.5 * size)
    ax.set_ylim(-1.5 * size, 1.5 * size)
    ax.set_title("keys, directions of queries")


def _regions(ax: Axes, keys: np.ndarray, queries: Queries, colours: list[Any]) -> None:
    from matplotlib.colors import ListedColormap

    reach = 1.25 * max(float(np.abs(q).max()) for q in queries.values())
    line = np.linspace(-reach, reach, GRID)
    x, y = np.meshgrid(line, line)
    winner = (np.stack([x, y], axis=-1) @ keys.T).argmax(axis=-1)
    colormap, top = ListedColormap(colours), len(keys) - 0.5
    ax.pcolormesh(x, y, winner, cmap=colormap, vmin=-0.5, vmax=top, alpha=0.45, rasterized=True)
    for j, query in queries.items():
        ax.plot(*query, "o", color=colours[j], markersize=8, markeredgecolor="#333333", zorder=3)
        ax.annotate(f"q{j}", tuple(query), xytext=(7, 5), textcoords="offset points", fontsize=8.5)
    ax.plot(0, 0, "+", color=NEUTRAL)
    ax.grid(visible=False)
    ax.set_title("queries, by the key that wins")


def draw_weights(table: Table, settings: DesignSettings) -> Drawing:
    """One row per part, one bar per key; what falls short is grey and says so."""
    parts = {name: part for name, part in exercise_parts(table).items() if "weights" in part}
    count = len(settings.keys)
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.8 + ROW * len(parts))
        for line, part in enumerate(parts.values()):
            _bars(ax, line, part["weights"], REACHED if part["feasible"] else SHORT)
            if not part["feasible"]:
                ax.text(count + 0.03, line, "not reached", va="center", fontsize=8, color=NEUTRAL)
        ax.set_yticks(range(len(parts)), list(parts))
        ax.set_ylim(len(parts) - 0.4, -0.6)
        ax.set_xticks([j + 0.43 for j in range(count)], [f"key {j}" for j in range(count)])
        ax.set_xlim(-0.05, count + 0.75)
        ax.tick_params(length=0)
        ax.grid(visible=False)
        ax.spines[["left", "bottom"]].set_visible(False)
        ax.set_xlabel("attention weight of each key (a full bar is 1)")
    return drawing


def _bars(ax: Axes, line: int, weights: list[float], colour: str) -> None:
    """One bar per key on a pale ground, with its number where there is anything to see."""
    for j, w in enumerate(weights):
        ax.barh(line, 0.86, left=j, height=0.62, color="#F2F2F2", zorder=1)
        ax.barh(line, 0.86 * w, left=j, height=0.62, color=colour, zorder=2)
        if w > 0.005:
            shade = "white" if w > 0.95 else "#222222"
            ax.text(j + 0.84, line, f"{w:.2f}", ha="right", va="center", fontsize=8, color=shade)
