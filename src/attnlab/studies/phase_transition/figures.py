"""Figure 2 of the paper, for training and for test error; the list of all figures."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.lab.table import Table
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    errorbars,
    house_style,
    panels,
    published,
    theory_line,
)
from attnlab.studies.phase_transition.beyond import beyond_figures
from attnlab.studies.phase_transition.claims import PUBLISHED
from attnlab.studies.phase_transition.evidence import Evidence, gap, over_instances
from attnlab.studies.phase_transition.maps import map_figures
from attnlab.studies.phase_transition.settings import PhaseSettings

ALPHA = "sample complexity α = N/D"
COLOURS = {"semantic": SEMANTIC, "positional": POSITIONAL}
BARS = "Bars: 95 % t intervals over instances. Points: simulation; lines: theory (D → ∞)."


def figures(table: Table, settings: PhaseSettings) -> list[Figure]:
    """Everything the report shows, in its order; a figure without trials is left out."""
    return [figure for figure in _all(table, settings) if figure.trials]


def _all(table: Table, settings: PhaseSettings) -> list[Figure]:
    e = Evidence(table, settings)
    points = e.part("Figure 2").ids
    two = points + e.table.where(kind="curve").ids if points else ()
    dim, omega = settings.curve_dim, settings.omega
    return [
        Figure(
            "figure-2",
            f"Two solutions, one transition (D = {dim:,}, ω = {omega:g})",
            "Left: above zero the semantic solution has the lower training loss; it crosses at α_c "
            "(dotted: theory; hollow: published). Middle: the overlap that names each solution. "
            "Right: training loss of both, of a random start and of the linear baseline. "
            f"{BARS}",
            "Three panels against α: the loss difference of the two solutions, their overlaps m "
            "and θ, and their training losses beside a random start and the linear baseline.",
            lambda: _figure_two(e, "train_error"),
            two,
        ),
        Figure(
            "figure-2-test",
            f"The same for test error (D = {dim:,}, ω = {omega:g})",
            "Left: test error of the positional minus the semantic solution. Middle: minus the "
            "linear baseline: attention is worth its price only below zero (α_l dotted). Right: "
            f"the test errors themselves. {BARS}",
            "Three panels against α: the difference of the test errors of the two solutions, each "
            "minus the linear baseline, and the test errors themselves.",
            lambda: _figure_two(e, "test_error"),
            two,
        ),
        *map_figures(e),
        *beyond_figures(e),
    ]


def _points(ax: Axes, e: Evidence, value: Callable[..., float], colour: str) -> None:
    found = over_instances(e.part("Figure 2"), value, "alpha")
    errorbars(ax, [k[0] for k in found], list(found.values()), colour)


def _figure_two(e: Evidence, error: str) -> Drawing:
    semantic, positional = e.theory("semantic"), e.theory("positional")
    train = error == "train_error"
    with house_style():
        drawing, (left, middle, right) = panels(1, 3, height=2.9)
        both = [a for a in semantic.alpha if a in set(positional.alpha)]
        gaps = [positional.at(a, error) - semantic.at(a, error) for a in both]
        left.axhline(0, color=NEUTRAL, linewidth=0.8)
        theory_line(left, both, gaps, NEUTRAL)
        _points(left, e, lambda r: gap(r, error), NEUTRAL)
        symbol = "$ε_t$" if train else "$ε_g$"
        left.set_ylabel(f"Δ{symbol}: positional − semantic")
        if train:
            _mark(left, e, "alpha_c")
            _overlap_panel(middle, e)
        else:
            _excess_panel(middle, e)
        for name, branch in (("semantic", semantic), ("positional", positional)):
            if branch.alpha.size:
                theory_line(right, branch.alpha, branch.columns[error], COLOURS[name])
            _points(right, e, lambda r, n=name: r[f"{n}_{error}"], COLOURS[name])
        _points(right, e, lambda r: r[f"linear_{error}"], LINEAR)
        _linear_theory(right, e, train)
        if train:
            _points(right, e, lambda r: r["random_train_error"], NEUTRAL)
        words = "training loss" if train else "test error"
        right.set_ylabel(f"{words} {symbol}")
        _names(right, 0.03 if train else 0.97)
        drawing.supxlabel(ALPHA, fontsize=8.5)
    return drawing


def _names(ax: Axes, x: float) -> None:
    """The names of the series in a free upper corner, in their colours."""
    names = [("semantic", SEMANTIC), ("positional", POSITIONAL), ("linear", LINEAR)]
    names += [("random start", NEUTRAL)] if x < 0.5 else []
    for index, (text, colour) in enumerate(names):
        ax.text(
            x,
            0.98 - 0.08 * index,
            text,
            color=colour,
            transform=ax.transAxes,
            va="top",
            ha="left" if x < 0.5 else "right",
            fontsize=8,
            fontweight="bold",
        )


def _mark(ax: Axes, e: Evidence, name: str) -> None:
    """The theory's critical point as a dotted line, the published one hollow."""
    found, _ = e.critical_at(name)
    if np.isfinite(found.value):
        ax.axvline(found.value, color=NEUTRAL, linestyle=":", linewidth=1.2)
        ax.annotate(
            f"$α_{name[-1]}$ = {found.value:.3f}",
            (found.value, 0.93),
            xycoords=("data", "axes fraction"),
            xytext=(-4, 0),
            ha="right",
            textcoords="offset points",
            fontsize=8,
        )
    if e.is_published_model:
        published(ax, [PUBLISHED[name]], [0.0])


def _linear_theory(ax: Axes, e: Evidence, train: bool) -> None:
    """The baseline for D → ∞: a constant test error, and α times it in training."""
    rows = e.table.where(kind="curve").rows
    if rows:
        alphas = np.array([0.0, max(rows[0].curves["alpha"])])
        level = float(rows[0]["linear_test_error"])
        theory_line(ax, alphas, level * (alphas if train else np.ones(2)), LINEAR)


def _overlap_panel(ax: Axes, e: Evidence) -> None:
    for name, overlap in (("semantic", "theta"), ("positional", "m")):
        branch = e.theory(name)
        if branch.alpha.size:
            theory_line(ax, branch.alpha, branch.columns[overlap], COLOURS[name])
        _points(ax, e, lambda r, n=name, o=overlap: r[f"{n}_{o}"], COLOURS[name])
    ax.set_ylabel("overlap with its start's direction")
    ax.set_ylim(bottom=0)
    ax.text(
        0.97,
        0.64,
        "m (positional)",
        color=POSITIONAL,
        transform=ax.transAxes,
        ha="right",
        fontsize=8,
    )
    ax.text(
        0.97, 0.06, "θ (semantic)", color=SEMANTIC, transform=ax.transAxes, ha="right", fontsize=8
    )


def _excess_panel(ax: Axes, e: Evidence) -> None:
    ax.axhline(0, color=LINEAR, linewidth=1.2)
    for name in ("semantic", "positional"):
        branch = e.theory(name)
        rows = e.table.where(kind="curve").rows
        if branch.alpha.size and rows:
            theory_line(
                ax,
                branch.alpha,
                branch.columns["test_error"] - rows[0]["linear_test_error"],
                COLOURS[name],
            )
        _points(
            ax, e, lambda r, n=name: r[f"{n}_test_error"] - r["linear_test_error"], COLOURS[name]
        )
    ax.set_ylabel("$ε_g$ − $ε_g$ of the linear baseline")
    _mark(ax, e, "alpha_l")
