"""Beyond the paper: finite D, two descents from nearby starts, the ridge, the scaling."""

from dataclasses import replace

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
    direct_label,
    errorbars,
    house_style,
    log_axis,
    panels,
    published,
)
from attnlab.studies.phase_transition.evidence import Evidence, over_instances, size_crossings

COLOURS = {"semantic": SEMANTIC, "positional": POSITIONAL}


def beyond_figures(e: Evidence) -> list[Figure]:
    """Finite size, replicas, ridge, scaling."""
    settings, omega = e.settings, e.settings.omega
    return [
        Figure(
            "finite-size", f"Simulation against D (ω = {omega:g})",
            "Left: the crossing α_c of simulation at each D: the zero of a straight "
            "line through the instances' means; the band is the theory's range over integration "
            "rules. Right: m of the positional "
            "solution over the theory's, where theory and descent disagree most: a gap that stays "
            "as D grows is no finite-size effect. Bars: 95 % (left: jackknife; right: t).",
            "Crossing against D on a log axis, near 1.2 to 1.25; ratios of m above one that do not "
            "fall to one.",
            lambda: _finite_size(e), e.part("finite size").ids + e.part("open questions").ids,
        ),
        Figure(
            "replicas", "Two descents from nearby starts: one minimum or many?",
            "Filled: distance Δ/q between the ends of two descents whose starts differ by noise "
            "(0.3 an entry), at the largest D. Hollow: separation Δ*/q at which the theory's two "
            "replicas stop moving apart. 0: same minimum, 2: nothing in common. The measured one "
            "depends on the size of the noise: compare the order, not the size. Bars: 95 % t "
            "intervals over instances.",
            "Measured and predicted separations: positional ones grow as ω falls, semantic ones "
            "are measured as zero.",
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
            "Bars: 95 % t intervals of the logarithm over instances.",
            "Score variance against D: flat with the paper's scaling, rising by D squared without.",
            lambda: _scaling(e), e.part("scaling").ids,
        ),
    ]  # fmt: skip


def _finite_size(e: Evidence) -> Drawing:
    sizes = size_crossings(e)
    theory, _ = e.critical_at("alpha_c")
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.9)
        errorbars(left, list(sizes), list(sizes.values()), NEUTRAL)
        if np.isfinite(theory.value):
            left.axhspan(theory.low, theory.high, color=NEUTRAL, alpha=0.25, linewidth=0)
            left.axhline(theory.value, color=NEUTRAL)
            left.annotate("theory", (1.02, theory.value), xycoords=("axes fraction", "data"),
                          va="center", fontsize=8, annotation_clip=False)  # fmt: skip
        left.set_ylabel("crossing of the losses $α_c$")
        for colour, (omega, alpha) in zip(
            (POSITIONAL, "#0B3C86", "#6FA8F5"), ((0.2, 1.0), (0.1, 0.8), (0.3, 1.25)), strict=True
        ):
            _m_ratio(right, e, omega, alpha, colour)
        right.axhline(1, color=NEUTRAL)
        right.set_ylabel("m simulation / m theory (positional)")
        _dimensions(left, e.settings.sizes)
        _dimensions(right, e.settings.open_dims)
    return drawing


def _dimensions(ax: Axes, dims: tuple[int, ...]) -> None:
    """A log axis of D with a tick at every D that was run: 500, 1k, 2.5k."""
    log_axis(ax, "x")
    ax.set_xticks(dims, [f"{d / 1000:g}k" if d >= 1000 else str(d) for d in dims])
    ax.minorticks_off()
    ax.set_xlabel("dimension D")


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
    """One line a point (ω, α): where theory says the replicas go, and where two descents ended."""
    points = list(e.part("open questions").groups("omega", "alpha"))
    with house_style():
        drawing, axes = panels(1, 2, height=0.9 + 0.33 * len(points), share_y=True)
        for ax, name in zip(axes, ("positional", "semantic"), strict=True):
            for y, (omega, alpha) in enumerate(points):
                _replica_row(ax, e, name, (omega, alpha), y)
            ax.set_title(name, color=COLOURS[name])
            ax.set_xlim(-0.05, 2.05)
            ax.set_xlabel("separation Δ/q of two solutions")
        axes[0].set_yticks(range(len(points)), [f"ω = {o:g}, α = {a:g}" for o, a in points])
        axes[0].set_ylim(-0.6, len(points) - 0.4)
    return drawing


def _replica_row(ax: Axes, e: Evidence, name: str, point: tuple[float, float], y: int) -> None:
    omega, alpha = point
    theory = e.table.where(kind="stability", omega=omega, alpha=alpha, branch=name).rows
    if theory and theory[0]["separation"] is not None:
        published(ax, [theory[0]["separation"]], [y], COLOURS[name])
    rows = e.part("open questions").where(omega=omega, alpha=alpha)
    largest = rows.where(dim=max(r["dim"] for r in rows))
    found = mean_interval(largest.column(f"{name}-2_separation"))
    reach = [[max(found.value - found.low, 0)], [max(found.high - found.value, 0)]]
    bar = reach if found.has_interval else None
    ax.errorbar([found.value], [y], xerr=bar, fmt="o", color=COLOURS[name], capsize=2, elinewidth=1)


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
            found = over_instances(rows, lambda r: float(np.log(r["score_variance"])), "dim")
            dims = [key[0] for key in found]
            shown = [replace(x, value=np.exp(x.value), low=np.exp(x.low), high=np.exp(x.high))
                     for x in found.values()]  # fmt: skip
            errorbars(ax, dims, shown, colour)
            if dims:
                direct_label(ax, [dims[-1]], [shown[-1].value], words, colour)
        log_axis(ax, "y")
        _dimensions(ax, e.settings.unscaled_dims)
        ax.set_ylabel("variance of the scores at W = W*")
    return drawing
