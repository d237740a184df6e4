"""Figure 2 of the paper, for training and for test error, and the finite-size and ridge figures."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.lab.table import Table
from attnlab.measure.intervals import mean_interval
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    direct_label,
    errorbars,
    house_style,
    log_axis,
    panels,
    published,
    theory_line,
)
from attnlab.studies.phase_transition.claims import PUBLISHED
from attnlab.studies.phase_transition.evidence import Evidence, gap, over_instances, size_crossings
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
            "figure-2", f"Two solutions, one transition (D = {dim:,}, ω = {omega:g})",
            "Left: above zero the semantic solution has the lower training loss; it crosses at α_c "
            "(dotted: theory; hollow: published). Middle: the overlap that names each solution. "
            f"Right: training loss of both and of the linear baseline. {BARS}",
            "Three curves against α: loss difference rising through zero near 1.25; overlaps m and "
            "θ growing with α; training losses of both solutions and the baseline.",
            lambda: _figure_two(e, "train_error"), two,
        ),
        Figure(
            "figure-2-test", f"The same for test error (D = {dim:,}, ω = {omega:g})",
            "Left: test error of the positional minus the semantic solution. Middle: minus the "
            "linear baseline: attention is worth its price only below zero (α_l dotted). Right: "
            f"the test errors themselves. {BARS}",
            "Test errors against α: the semantic one falls below the linear baseline near 1.49, "
            "the positional one never does.",
            lambda: _figure_two(e, "test_error"), two,
        ),
        *map_figures(e),
        Figure(
            "finite-size", f"Simulation against D (ω = {omega:g})",
            "Left: the crossing α_c of simulation at each D: the zero of a straight "
            "line through the instances' means; the band is the theory's range over integration "
            "rules. Right: m of the positional "
            "solution over the theory's, where theory and descent disagree most: a gap that stays "
            "as D grows is no finite-size effect. Bars: 95 % (left: jackknife over instances; right: t).",
            "Crossing against D on a log axis, near 1.2 to 1.25; ratios of m above one that do not "
            "fall to one.",
            lambda: _finite_size(e), e.part("finite size").ids + e.part("open questions").ids,
        ),
        Figure(
            "replicas", "Two descents from nearby starts: one minimum or many?",
            "Distance Δ/q between the ends of two descents whose starts differ by noise (0.3 an "
            "entry), against the separation Δ*/q at which the theory's two replicas stop moving "
            "apart; 0: same minimum, 2: nothing in common. The measured one depends on the size "
            "of the noise, so compare the order, not the size. Bars: 95 % t intervals over "
            "instances.",
            "Measured against predicted separation, positional points along the diagonal, semantic "
            "points at zero measured separation.",
            lambda: _replicas(e), e.part("open questions").ids,
        ),
        Figure(
            "ridge", f"Choosing λ from training data (D = {settings.ridge_dim:,})",
            "Test error of the semantic solution against λ, and its prediction by k-fold "
            "cross-validation and by leave-one-out from one fit. "
            "Bars: 95 % t intervals over instances.",
            "Three curves against λ for each α: leave-one-out lies closer to the test error.",
            lambda: _ridge(e), e.part("ridge").ids,
        ),
        Figure(
            "scaling", "Why the factors 1/√D matter",
            "Variance of the attention scores at the semantic start, with the paper's scaling and "
            "without: without it the scores grow with D and the softmax saturates. "
            "Bars: 95 % t intervals over instances.",
            "Score variance against D: flat with the paper's scaling, rising by D squared without.",
            lambda: _scaling(e), e.part("scaling").ids,
        ),
    ]  # fmt: skip


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
        words = "training loss" if train else "test error"
        right.set_ylabel(f"{words} {symbol}")
        _names(right, ("semantic", SEMANTIC), ("positional", POSITIONAL), ("linear", LINEAR))
        for ax in (left, middle, right):
            ax.set_xlabel(ALPHA)
    return drawing


def _names(ax: Axes, *names: tuple[str, str]) -> None:
    """The names of the series in a free corner, in their colours."""
    for index, (text, colour) in enumerate(names):
        ax.text(0.03, 0.97 - 0.09 * index, text, color=colour, transform=ax.transAxes, va="top",
                fontsize=8, fontweight="bold")  # fmt: skip


def _mark(ax: Axes, e: Evidence, name: str) -> None:
    """The theory's critical point as a dotted line, the published one hollow."""
    found, _ = e.critical_at(name)
    if np.isfinite(found.value):
        ax.axvline(found.value, color=NEUTRAL, linestyle=":", linewidth=1.2)
        ax.annotate(f"$α_{name[-1]}$ = {found.value:.3f}", (found.value, 0.03),
                    xycoords=("data", "axes fraction"), xytext=(-4, 0), ha="right",
                    textcoords="offset points", fontsize=8)  # fmt: skip
    if e.settings.omega == 0.3:
        published(ax, [PUBLISHED[name]], [0.0])


def _overlap_panel(ax: Axes, e: Evidence) -> None:
    for name, overlap in (("semantic", "theta"), ("positional", "m")):
        branch = e.theory(name)
        if branch.alpha.size:
            theory_line(ax, branch.alpha, branch.columns[overlap], COLOURS[name])
        _points(ax, e, lambda r, n=name, o=overlap: r[f"{n}_{o}"], COLOURS[name])
    ax.set_ylabel("overlap with its start's direction")
    ax.set_ylim(bottom=0)
    ax.text(0.97, 0.80, "m of the positional", color=POSITIONAL, transform=ax.transAxes,
            ha="right", fontsize=8)  # fmt: skip
    ax.text(0.97, 0.06, "θ of the semantic", color=SEMANTIC, transform=ax.transAxes,
            ha="right", fontsize=8)  # fmt: skip


def _excess_panel(ax: Axes, e: Evidence) -> None:
    ax.axhline(0, color=LINEAR, linewidth=1.2)
    for name in ("semantic", "positional"):
        branch = e.theory(name)
        rows = e.table.where(kind="curve").rows
        if branch.alpha.size and rows:
            theory_line(ax, branch.alpha,
                        branch.columns["test_error"] - rows[0]["linear_test_error"],
                        COLOURS[name])  # fmt: skip
        _points(ax, e, lambda r, n=name: r[f"{n}_test_error"] - r["linear_test_error"],
                COLOURS[name])  # fmt: skip
    ax.set_ylabel("$ε_g$ − $ε_g$ of the linear baseline")
    _mark(ax, e, "alpha_l")


def _finite_size(e: Evidence) -> Drawing:
    sizes = size_crossings(e)
    theory, _ = e.critical_at("alpha_c")
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.9)
        errorbars(left, list(sizes), list(sizes.values()), NEUTRAL)
        if np.isfinite(theory.value):
            left.axhspan(theory.low, theory.high, color=NEUTRAL, alpha=0.25, linewidth=0)
            left.axhline(theory.value, color=NEUTRAL)
            direct_label(left, [max(sizes)], [theory.value], "theory")
        left.set_ylabel("crossing of the losses $α_c$")
        for colour, (omega, alpha) in zip(
            (POSITIONAL, "#0B3C86", "#6FA8F5"), ((0.2, 1.0), (0.1, 0.8), (0.3, 1.25)), strict=True
        ):
            _m_ratio(right, e, omega, alpha, colour)
        right.axhline(1, color=NEUTRAL)
        right.set_ylabel("m simulation / m theory (positional)")
        for ax in (left, right):
            log_axis(ax, "x")
            ax.set_xlabel("dimension D")
    return drawing


def _m_ratio(ax: Axes, e: Evidence, omega: float, alpha: float, colour: str) -> None:
    theory = e.table.where(kind="stability", omega=omega, alpha=alpha, branch="positional").rows
    if not theory or theory[0]["m"] is None:
        return
    rows = e.part("open questions").where(omega=omega, alpha=alpha)
    found = over_instances(rows, lambda r: r["positional_m"] / theory[0]["m"], "dim")
    dims = [key[0] for key in found]
    errorbars(ax, dims, list(found.values()), colour, marker="s")
    if dims:
        last = list(found.values())[-1].value
        direct_label(ax, [dims[-1]], [last], f"ω={omega:g}, α={alpha:g}", colour)


def _replicas(e: Evidence) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.2)
        for name in ("semantic", "positional"):
            for (omega, alpha), rows in e.part("open questions").groups("omega", "alpha").items():
                found = e.table.where(kind="stability", omega=omega, alpha=alpha, branch=name).rows
                if not found or found[0]["separation"] is None:
                    continue
                largest = rows.where(dim=max(r["dim"] for r in rows))
                measured = mean_interval(largest.column(f"{name}-2_separation"))
                x = found[0]["separation"]
                errorbars(ax, [x], [measured], COLOURS[name])
                direct_label(ax, [x], [measured.value], f"ω={omega:g}, α={alpha:g}", COLOURS[name])
        top = max(ax.get_xlim()[1], 0.1)
        ax.plot([0, top], [0, top], color=NEUTRAL, linewidth=0.8, zorder=1)
        ax.set_xlabel("predicted separation Δ*/q (two-replica map)")
        ax.set_ylabel("measured separation Δ/q of two descents")
        _names(ax, ("semantic", SEMANTIC), ("positional", POSITIONAL))
    return drawing


def _ridge(e: Evidence) -> Drawing:
    ridges = list(e.settings.ridges)
    groups = e.part("ridge").groups("alpha")
    with house_style():
        drawing, axes = panels(1, max(1, len(groups)), height=2.8)
        for ax, ((alpha,), rows) in zip(axes, groups.items(), strict=False):
            for name, colour, words in (
                ("test", SEMANTIC, "test"), ("cv", LINEAR, "folds"), ("loo", NEUTRAL, "one fit"),
            ):  # fmt: skip
                values = np.array([r.curves[f"semantic_{name}"] for r in rows])
                estimates = [mean_interval(values[:, i]) for i in range(len(ridges))]
                errorbars(ax, ridges, estimates, colour)
                ax.plot(ridges, [x.value for x in estimates], color=colour, linewidth=0.8)
                direct_label(ax, [ridges[-1]], [estimates[-1].value], words, colour)
            log_axis(ax, "x")
            ax.set_title(f"α = {alpha:g}")
            ax.set_xlabel("ridge λ")
            ax.set_ylabel("error on unseen data $ε_g$")
    return drawing


def _scaling(e: Evidence) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=2.7)
        for scaling, colour, words in (
            ("paper", NEUTRAL, "with 1/√D"), ("unscaled", SEMANTIC, "without"),
        ):  # fmt: skip
            rows = e.part("scaling").where(scaling=scaling)
            found = over_instances(rows, lambda r: r["score_variance"], "dim")
            dims = [key[0] for key in found]
            errorbars(ax, dims, list(found.values()), colour)
            if dims:
                direct_label(ax, [dims[-1]], [list(found.values())[-1].value], words, colour)
        log_axis(ax, "x")
        log_axis(ax, "y")
        ax.set_xlabel("dimension D")
        ax.set_ylabel("variance of the scores at W = W*")
    return drawing
