"""Everything that was measured: shares, norms, targets, pairs, subspaces; and the exercise."""

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.lab.table import Table
from attnlab.measure.intervals import mean_interval
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import (
    NEUTRAL,
    PALETTE,
    errorbars,
    house_style,
    log_axis,
    panels,
    theory_line,
)
from attnlab.studies.attention_design.gaussian import asymptotic_share, exact_share
from attnlab.studies.attention_design.lengths import draw_lengths
from attnlab.studies.attention_design.plane import draw_plane, draw_weights
from attnlab.studies.attention_design.study import (
    GAUSSIAN,
    SPHERE,
    AttentionDesign,
    DesignSettings,
    share,
)

BLUE, RED, ORANGE = PALETTE[:3]


def figures(study: AttentionDesign, table: Table) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    s = study.settings
    exercise, selectable, norms, targets, pairs, subspaces = (
        table.where(kind=kind)
        for kind in ("exercise", "selectable", "norms", "targets", "pair", "subspaces")
    )
    drawn: dict[str, Drawn] = {
        "keys": (partial(draw_lengths, exercise, s), exercise.ids),
        "plane": (partial(draw_plane, table, s), exercise.ids if len(s.keys[0]) == 2 else ()),
        "weights": (partial(draw_weights, table, s), exercise.ids),
        "selectable": (partial(_selectable, table, s), selectable.ids),
        "norms": (partial(_norms, norms), norms.ids),
        "targets": (partial(_targets, targets), targets.ids),
        "pairs": (partial(_pairs, pairs, subspaces), pairs.ids),
    }
    return with_words(study, drawn)


def _selectable(table: Table, s: DesignSettings) -> Drawing:
    from matplotlib import colormaps

    dims = sorted(s.dims)
    colours = colormaps["viridis"](np.linspace(0.05, 0.8, len(dims)))
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.4)
        ax.set_xscale("log")
        ax.set_yscale("log")
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
        ax.set_xlabel("number of keys n")
        ax.set_ylabel("share of keys that a query can select")
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
            ax.set_xscale("log")
            ax.set_xlabel("odds of the key, w / (1 − w)")
            ax.set_ylabel(label)
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
        ax.set_xlabel("least KL(target ‖ attention) in nats")
        ax.set_ylabel("KL of least squares, nats")
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
        plain.set_ylim(0, 1.05)
        plain.axhline(1.0, color=NEUTRAL, linestyle=":", linewidth=1)
        plain.set_ylabel("weight on the pair, β = 1")
        for ax in (needed, plain):
            ax.set_xscale("log", base=4)
            ax.set_xlabel("number of keys n")
            ax.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
        _points(apart, theta, subspaces.column("matrix norm"), BLUE)
        if theta.size:
            fine = np.linspace(theta.min(), theta.max(), 200)
            theory_line(apart, fine, 2 / np.sin(np.radians(fine)), BLUE)
        apart.set_xlabel("least angle θ in degrees")
        apart.set_ylabel("norm of M")
    return drawing


def _points(ax: Axes, x: np.ndarray, y: np.ndarray, colour: str, marker: str = "o") -> None:
    ax.plot(x, y, marker, color=colour, markeredgecolor="white", markeredgewidth=0.5, zorder=3)
