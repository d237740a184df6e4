"""The exercise, and everything that was measured: shares, norms, targets, pairs, subspaces."""

from functools import partial
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.lab.table import Table
from attnlab.measure.intervals import mean_interval
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import (
    MARKERS,
    NEUTRAL,
    PALETTE,
    direct_label,
    errorbars,
    house_style,
    log_axis,
    panels,
    theory_line,
)
from attnlab.studies.attention_design.gaussian import asymptotic_share, exact_share
from attnlab.studies.attention_design.study import (
    GAUSSIAN,
    SPHERE,
    AttentionDesign,
    DesignSettings,
    exercise_parts,
    share,
)

BLUE, RED, ORANGE = PALETTE[:3]
NUMBERED = 8  # keys whose products are printed in their cells
GRID = 241  # points along each side of the plane of queries
ROW = 0.36  # inches per row of bars
Queries = dict[int, np.ndarray]  # key -> the shortest query that selects it


def figures(study: AttentionDesign, table: Table) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    s = study.settings
    exercise, selectable, norms, targets, pairs, subspaces = (
        table.where(kind=kind)
        for kind in ("exercise", "selectable", "norms", "targets", "pair", "subspaces")
    )
    drawn: dict[str, Drawn] = {
        "keys": (partial(_lengths, exercise, s), exercise.ids),
        "plane": (partial(_plane, table, s), exercise.ids if len(s.keys[0]) == 2 else ()),
        "weights": (partial(_weights, table, s), exercise.ids),
        "selectable": (partial(_selectable, table, s), selectable.ids),
        "norms": (partial(_norms, norms), norms.ids),
        "targets": (partial(_targets, targets), targets.ids),
        "pairs": (partial(_pairs, pairs, subspaces), pairs.ids),
    }
    return with_words(study, drawn)


def _lengths(exercise: Table, s: DesignSettings) -> Drawing:
    """Left: k_i·k_j. Right: the shortest query that gives each selectable key a weight."""
    keys = np.array(s.keys, dtype=float)
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
        right.set(xscale="log", xlabel="odds of the key, w / (1 − w)")
        right.set_ylabel("norm of the shortest query")
    return drawing


def _products(ax: Axes, products: np.ndarray) -> None:
    top = float(np.abs(products).max()) or 1.0
    ax.pcolormesh(products, cmap="RdBu_r", vmin=-1.6 * top, vmax=1.6 * top, rasterized=True)
    count = len(products)
    ax.set(ylim=(count, 0), aspect="equal")
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


def _plane(table: Table, s: DesignSettings) -> Drawing:
    """Keys and hull on the left; regions of queries with the shortest queries on the right."""
    keys = np.array(s.keys, dtype=float)
    parts = exercise_parts(table)
    selections = {j: parts[f"select {j}"] for j in range(len(keys))}
    queries = {j: np.array(p["query"]) for j, p in selections.items() if p["feasible"]}
    colours = [colormaps["Set2"](j % 8) for j in range(len(keys))]
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.4)
        _keys(left, keys, queries, colours)
        _regions(right, keys, queries, colours)
        for ax, what in ((left, "a key"), (right, "the query")):
            ax.set(xlabel=f"first coordinate of {what}", ylabel="second coordinate", aspect="equal")
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
    ends = (-1.5 * size, 1.5 * size)
    ax.set(xlim=ends, ylim=ends, title="keys, directions of queries")


def _regions(ax: Axes, keys: np.ndarray, queries: Queries, colours: list[Any]) -> None:
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


def _weights(table: Table, s: DesignSettings) -> Drawing:
    """One row per part, one bar per key; what falls short is grey and says so."""
    parts = {name: part for name, part in exercise_parts(table).items() if "weights" in part}
    count = len(s.keys)
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.8 + ROW * len(parts))
        for line, part in enumerate(parts.values()):
            _bars(ax, line, part["weights"], RED if part["feasible"] else "#AAAAAA")
            if not part["feasible"]:
                ax.text(count + 0.03, line, "not reached", va="center", fontsize=8, color=NEUTRAL)
        ax.set_yticks(range(len(parts)), list(parts))
        ax.set_xticks([j + 0.43 for j in range(count)], [f"key {j}" for j in range(count)])
        ax.set(xlim=(-0.05, count + 0.75), ylim=(len(parts) - 0.4, -0.6))
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


def _selectable(table: Table, s: DesignSettings) -> Drawing:
    dims = sorted(s.dims)
    colours = colormaps["viridis"](np.linspace(0.05, 0.8, len(dims)))
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.4)
        ax.set(xscale="log", yscale="log")
        for colour, h, marker in zip(colours, dims, "osD^v", strict=False):
            sizes = [n for n in sorted(s.sizes) if n > h + 1]
            shares = [share(table, GAUSSIAN, n, h) for n in sizes]
            errorbars(ax, sizes, shares, colour, f"Gaussian, h = {h}", marker)
            fine = np.unique(np.geomspace(min(sizes), 1.5 * max(sizes), 60).round().astype(int))
            theory_line(ax, fine, [exact_share(int(n), h) for n in fine], colour)
            limit = np.array([asymptotic_share(n, h) for n in fine])
            ax.plot(fine[limit < 1], limit[limit < 1], ":", color=colour, linewidth=1.1)
        sizes = [n for n in sorted(s.sizes) if n > max(dims) + 1]
        shares = [share(table, SPHERE, n, max(dims)) for n in sizes]
        errorbars(ax, sizes, shares, RED, f"sphere, h = {max(dims)}", "P")
        ax.set(xlabel="number of keys n", ylabel="share of keys that a query can select")
        ax.set_ylim(top=1.6)
        ax.legend(loc="lower left")
    return drawing


def _norms(rows: Table) -> Drawing:
    weight, shortest, margin = (
        np.array([row.curves[name] for row in rows]) for name in ("weight", "shortest", "margin")
    )
    odds = weight[0] / (1 - weight[0])
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.0)
        for ax, curves, colour, label in (
            (left, shortest, RED, "shortest query"),
            (left, margin, BLUE, "along the max-margin direction"),
            (right, margin / shortest, BLUE, None),
        ):
            errorbars(ax, odds, [mean_interval(column) for column in curves.T], colour, label)
        right.axhline(1.0, color=RED, linewidth=1.0)
        for ax, label in ((left, "norm of the query ‖q‖"), (right, "max-margin / shortest")):
            ax.set(xscale="log", xlabel="odds of the key, w / (1 − w)", ylabel=label)
        left.legend(loc="upper left")
    return drawing


def _targets(rows: Table) -> Drawing:
    best, naive = (
        np.concatenate([row.curves[name] for row in rows]) for name in ("best", "least squares")
    )
    low, high = best.min() * 0.8, max(naive.max(), best.max()) * 1.25
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.2)
        log_axis(ax, "x")
        log_axis(ax, "y")
        _points(ax, best, naive, ORANGE, "^")
        ax.plot([low, high], [low, high], ":", color=NEUTRAL, linewidth=1.2)
        ax.text(1.3 * low, 1.1 * low, "equal", fontsize=8, color=NEUTRAL, va="top")
        ax.set(xlabel="least KL(target ‖ attention) in nats", ylabel="KL of least squares, nats")
    return drawing


def _pairs(pairs: Table, subspaces: Table) -> Drawing:
    n, theta = pairs.column("n"), subspaces.column("angle")
    with house_style():
        drawing, (needed, plain, apart) = panels(1, 3, height=2.7)
        _points(needed, n, pairs.column("beta"), RED)
        order = np.argsort(n)
        theory_line(needed, n[order], pairs.column("closed form")[order], RED)
        needed.set_ylabel("β needed")
        _points(plain, n, pairs.column("weight without scale"), ORANGE)
        plain.set(ylim=(0, 1.05), ylabel="weight on the pair, β = 1")
        plain.axhline(1.0, color=NEUTRAL, linestyle=":", linewidth=1)
        for ax in (needed, plain):
            ax.set_xscale("log", base=4)
            ax.set_xlabel("number of keys n")
            ax.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
        _points(apart, theta, subspaces.column("matrix norm"), BLUE)
        if theta.size:
            fine = np.linspace(theta.min(), theta.max(), 200)
            theory_line(apart, fine, 2 / np.sin(np.radians(fine)), BLUE)
        apart.set(xlabel="least angle θ in degrees", ylabel="norm of M")
    return drawing


def _points(ax: Axes, x: np.ndarray, y: np.ndarray, colour: str, marker: str = "o") -> None:
    ax.plot(x, y, marker, color=colour, markeredgecolor="white", markeredgewidth=0.5, zorder=3)
