"""Everything that was measured: shares, norms, targets, pairs, subspaces; and the exercise."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.measure.intervals import mean_interval
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    errorbars,
    house_style,
    panels,
    theory_line,
)
from attnlab.studies.attention_design.evidence import GAUSSIAN, SPHERE, Found
from attnlab.studies.attention_design.gaussian import asymptotic_share, exact_share
from attnlab.studies.attention_design.plane import in_the_plane, plane, weights
from attnlab.studies.attention_design.settings import DesignSettings

BARS = "Bars: 95 % t intervals over independent sets of keys."


def figures(found: Found, settings: DesignSettings) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    drawn = [
        (
            "exercise",
            "plane",
            "The keys of the exercise, and the queries that select them",
            "Left: the keys and their hull; what lies inside cannot be selected. Right: the plane of "
            "queries, coloured by the key that gets most weight; the marks are the shortest queries "
            f"that give {settings.weight:.0%}. An inner key has no region of its own.",
            "Five keys with their convex hull; beside it four regions of queries.",
            lambda: plane(found, settings),
        ),
        (
            "exercise",
            "weights",
            "What attention becomes, part by part",
            "Each row is one part of the exercise: the weights of all keys, as bars from 0 to 1.",
            "A grid of bars: one row for each part of the exercise, one column for each key.",
            lambda: weights(found, settings),
        ),
        (
            "selectable",
            "selectable",
            "How many random keys can be selected",
            "Points: share of keys that are corners of their hull. Lines: the exact law; dotted: its "
            f"limit for large n, drawn where it is below 1. {BARS}",
            "Share of selectable keys against the number of keys, for each dimension; on a sphere 1.",
            lambda: _selectable(found, settings),
        ),
        (
            "norms",
            "norms",
            "What a weight costs",
            "Left: norm of the shortest query (●) and along the max-margin direction (■) against the "
            f"odds of the weight. Right: how many times as long the latter is. {BARS}",
            "Two rising curves of norm against odds, and their ratio, which stays above 1.",
            lambda: _norms(found),
        ),
        (
            "targets",
            "targets",
            "Matching a distribution",
            "Each point is a random target: KL of least squares on log-targets against the least KL. "
            "On the dotted line both would be equal; no point can lie below it.",
            "Scatter plot, all points above the diagonal.",
            lambda: _targets(found),
        ),
        (
            "pair",
            "pairs",
            "Averaging two of n orthonormal keys, and taking a mean apart",
            "Left: the β that β(k_a + k_b) needs; the line is the closed form. Middle: the weight on "
            "the pair with β = 1. Right: norm of the matrix that returns v_a from (v_a + v_b)/2; the "
            "line is 2/sin θ.",
            "Three panels: β grows with ln n, the weight without scale falls, the norm is 2 / sin θ.",
            lambda: _pairs(found),
        ),
    ]
    return [
        Figure(name, title, caption, alt, draw, tuple(r.id for r in found.rows(kind)))
        for kind, name, title, caption, alt, draw in drawn
        if len(found.rows(kind)) and (name != "plane" or in_the_plane(settings))
    ]


def _selectable(found: Found, settings: DesignSettings) -> Drawing:
    from matplotlib import colormaps

    dims = sorted(settings.dims)
    colours = colormaps["viridis"](np.linspace(0.05, 0.8, len(dims)))
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.4)
        ax.set_xscale("log")
        ax.set_yscale("log")
        for colour, h, marker in zip(colours, dims, "osD^v", strict=False):
            sizes = [n for n in sorted(settings.sizes) if n > h + 1]
            shares = [found.share(GAUSSIAN, n, h) for n in sizes]
            errorbars(ax, sizes, shares, colour, f"Gaussian, h = {h}", marker)
            fine = np.unique(np.geomspace(min(sizes), 1.5 * max(sizes), 60).round().astype(int))
            theory_line(ax, fine, [exact_share(int(n), h) for n in fine], colour)
            limit = np.array([asymptotic_share(n, h) for n in fine])
            ax.plot(fine[limit < 1], limit[limit < 1], ":", color=colour, linewidth=1.1)
        sizes = [n for n in sorted(settings.sizes) if n > max(dims) + 1]
        shares = [found.share(SPHERE, n, max(dims)) for n in sizes]
        errorbars(ax, sizes, shares, SEMANTIC, f"sphere, h = {max(dims)}", "P")
        ax.set_xlabel("number of keys n")
        ax.set_ylabel("share of keys that a query can select")
        ax.set_ylim(top=1.6)
        ax.legend(loc="lower left")
    return drawing


def _norms(found: Found) -> Drawing:
    with house_style():
        drawing, (ax, beside) = panels(1, 2, height=3.0)
        odds = found.curves("weight")[0] / (1 - found.curves("weight")[0])
        looks = (
            ("shortest", SEMANTIC, "shortest query"),
            ("margin", POSITIONAL, "along the max-margin direction"),
        )
        for name, colour, label in looks:
            curves = found.curves(name)
            errorbars(ax, odds, [mean_interval(c) for c in curves.T], colour, label)
        ratios = found.curves("margin") / found.curves("shortest")
        errorbars(beside, odds, [mean_interval(r) for r in ratios.T], POSITIONAL)
        beside.axhline(1.0, color=SEMANTIC, linewidth=1.0)
        for each, label in ((ax, "norm of the query ‖q‖"), (beside, "max-margin / shortest")):
            each.set_xscale("log")
            each.set_xlabel("odds of the key, w / (1 − w)")
            each.set_ylabel(label)
        ax.legend(loc="upper left")
    return drawing


def _targets(found: Found) -> Drawing:
    rows = found.rows("targets")
    best = np.concatenate([r.curves["best"] for r in rows])
    naive = np.concatenate([r.curves["least squares"] for r in rows])
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.2)
        ax.loglog(
            best,
            naive,
            "^",
            color=LINEAR,
            markersize=4,
            markeredgecolor="white",
            markeredgewidth=0.4,
        )
        ends = np.array([best.min() * 0.8, max(naive.max(), best.max()) * 1.25])
        ax.plot(ends, ends, ":", color=NEUTRAL, linewidth=1.2)
        ax.annotate(
            "equal",
            (ends[0] * 1.1, ends[0] * 1.1),
            xytext=(4, -10),
            fontsize=8,
            textcoords="offset points",
            color=NEUTRAL,
        )
        ax.set_xlabel("least KL(target ‖ attention) in nats")
        ax.set_ylabel("KL of least squares, nats")
    return drawing


def _pairs(found: Found) -> Drawing:
    rows = sorted(found.rows("pair"), key=lambda r: r["n"])
    n = np.array([r["n"] for r in rows], dtype=float)
    with house_style():
        drawing, axes = panels(1, 3, height=2.7)
        _points(axes[0], n, [r["beta"] for r in rows], SEMANTIC)
        theory_line(axes[0], n, [r["closed form"] for r in rows], SEMANTIC)
        axes[0].set_ylabel("β needed")
        _points(axes[1], n, [r["weight without scale"] for r in rows], LINEAR)
        axes[1].set_ylim(0, 1.05)
        axes[1].axhline(1.0, color=NEUTRAL, linestyle=":", linewidth=1)
        axes[1].set_ylabel("weight on the pair, β = 1")
        for ax in axes[:2]:
            ax.set_xscale("log", base=4)
            ax.set_xlabel("number of keys n")
            ax.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
        angles = sorted(found.rows("subspaces"), key=lambda r: r["angle"])
        theta = np.array([r["angle"] for r in angles])
        _points(axes[2], theta, [r["matrix norm"] for r in angles], POSITIONAL)
        fine = np.linspace(theta.min(), theta.max(), 200)
        theory_line(axes[2], fine, 2 / np.sin(np.radians(fine)), POSITIONAL)
        axes[2].set_xlabel("least angle θ in degrees")
        axes[2].set_ylabel("norm of M")
    return drawing


def _points(ax: Axes, x: np.ndarray, y: list[float], colour: str) -> None:
    ax.plot(x, y, "o", color=colour, markeredgecolor="white", markeredgewidth=0.5, zorder=3)
