"""The exercise drawn: keys, hull, regions of queries, and weights as bars."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.report.style import NEUTRAL, SEMANTIC, house_style, panels
from attnlab.studies.attention_design.evidence import Found
from attnlab.studies.attention_design.settings import DesignSettings

GRID = 241
ROW = 0.36  # inches a row of bars


def in_the_plane(settings: DesignSettings) -> bool:
    """Keys that can be drawn."""
    return len(settings.keys[0]) == 2


def plane(found: Found, settings: DesignSettings) -> Drawing:
    """Keys and hull on the left; regions of queries with the shortest queries on the right."""
    from matplotlib import colormaps

    keys = np.array(settings.keys, dtype=float)
    parts = found.exercise()
    queries = {
        j: np.array(parts[f"select {j}"]["query"])
        for j in range(len(keys))
        if parts[f"select {j}"]["feasible"]
    }
    colours = [colormaps["Set2"](j % 8) for j in range(len(keys))]
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.4)
        _keys(left, keys, queries, colours)
        _regions(right, keys, queries, colours)
    return drawing


def _keys(ax: Axes, keys: np.ndarray, queries: dict[int, np.ndarray], colours: list) -> None:
    from scipy.spatial import ConvexHull

    corners = keys[ConvexHull(keys).vertices]
    closed = np.concatenate([corners, corners[:1]])
    ax.fill(*closed.T, color="#F2F2F2", zorder=0)
    ax.plot(*closed.T, color=NEUTRAL, linewidth=0.8, zorder=1)
    size = np.abs(keys).max()
    for j, key in enumerate(keys):
        ax.plot(*key, "o", color=colours[j], markersize=9, markeredgecolor="#333333", zorder=3)
        inner = j not in queries
        away = np.array([0.11, 0.0]) if inner else 0.09 * np.sign(key + 1e-9)
        side = "left" if inner or key[0] >= 0 else "right"
        ax.annotate(
            f"k{j}, inside" if inner else f"k{j}",
            key + away * size,
            ha=side,
            va="center",
            fontsize=8.5,
        )
    for j, query in queries.items():
        tip = query / np.linalg.norm(query) * 0.55 * size
        ax.annotate(
            "", tip, (0, 0), arrowprops={"arrowstyle": "->", "color": colours[j], "linewidth": 1.8}
        )
    ax.set_xlim(-1.5 * size, 1.5 * size)
    ax.set_ylim(-1.5 * size, 1.5 * size)
    ax.set_aspect("equal")
    ax.set_xlabel("first coordinate of a key")
    ax.set_ylabel("second coordinate")
    ax.set_title("keys, directions of queries")


def _regions(ax: Axes, keys: np.ndarray, queries: dict[int, np.ndarray], colours: list) -> None:
    from matplotlib.colors import ListedColormap

    reach = 1.25 * max(float(np.abs(q).max()) for q in queries.values())
    line = np.linspace(-reach, reach, GRID)
    x, y = np.meshgrid(line, line)
    scores = np.stack([x, y], axis=-1) @ keys.T
    ax.pcolormesh(
        x,
        y,
        scores.argmax(axis=-1),
        cmap=ListedColormap(colours),
        vmin=-0.5,
        vmax=len(keys) - 0.5,
        alpha=0.45,
        rasterized=True,
    )
    for j, query in queries.items():
        ax.plot(*query, "o", color=colours[j], markersize=8, markeredgecolor="#333333", zorder=3)
        ax.annotate(f"q{j}", tuple(query), xytext=(7, 5), textcoords="offset points", fontsize=8.5)
    ax.plot(0, 0, "+", color=NEUTRAL)
    ax.grid(visible=False)
    ax.set_aspect("equal")
    ax.set_xlabel("first coordinate of the query")
    ax.set_ylabel("second coordinate")
    ax.set_title("queries, by the key that wins")


def weights(found: Found, settings: DesignSettings) -> Drawing:
    """A row a part, a bar a key; the sentence says whether it could be done."""
    parts = {name: each for name, each in found.exercise().items() if "weights" in each}
    count = len(settings.keys)
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.8 + ROW * len(parts))
        for line, each in enumerate(parts.values()):
            colour = SEMANTIC if each["feasible"] else "#AAAAAA"
            for j, w in enumerate(each["weights"]):
                ax.barh(line, 0.86 * w, left=j, height=0.62, color=colour, zorder=2)
                ax.barh(line, 0.86, left=j, height=0.62, color="#F2F2F2", zorder=1)
                if w > 0.005:
                    ax.annotate(
                        f"{w:.2f}",
                        (j + 0.86, line),
                        ha="right",
                        va="center",
                        fontsize=8,
                        xytext=(-2, 0),
                        textcoords="offset points",
                        zorder=4,
                        color="white" if w > 0.8 else "#222222",
                    )
            if not each["feasible"]:
                ax.annotate(
                    "impossible",
                    (count, line),
                    va="center",
                    fontsize=8,
                    xytext=(4, 0),
                    textcoords="offset points",
                    color=NEUTRAL,
                )
        ax.set_yticks(range(len(parts)), list(parts))
        ax.set_ylim(len(parts) - 0.4, -0.6)
        ax.set_xticks([j + 0.43 for j in range(count)], [f"key {j}" for j in range(count)])
        ax.set_xlim(-0.05, count + 0.75)
        ax.tick_params(length=0)
        ax.grid(visible=False)
        for side in ("left", "bottom"):
            ax.spines[side].set_visible(False)
        ax.set_xlabel("attention weight of each key (a full bar is 1)")
    return drawing
