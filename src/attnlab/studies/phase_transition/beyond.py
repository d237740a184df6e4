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
)
from attnlab.studies.phase_transition.evidence import Evidence, over_instances, size_crossings

COLOURS = {"semantic": SEMANTIC, "positional": POSITIONAL}


def beyond_figures(e: Evidence) -> list[Figure]:
    """Finite size, replicas, ridge, scaling."""
    settings, omega = e.settings, e.settings.omega
    return [
        Figure(
            "finite-size",
            f"Simulation against D (ω = {omega:g})",
            "Left: the crossing α_c of simulation at each D: the zero of a straight "
            "line through the instances' means; the band is the theory's range over integration "
            "rules. Right: m of the positional "
            "solution over the theory's, where theory and descent disagree most: a gap that stays "
            "as D grows is no finite-size effect. Bars: 95 % (left: jackknife; right: t).",
            "Crossing of the losses against D beside theory; overlap m over the theory's.",
            lambda: _finite_size(e),
            e.part("finite size").ids + e.part("open questions").ids,
        ),
        Figure(
            "instability",
            "Where simulation and theory differ, theory is unstable",
            "How far the overlap of simulation (largest D) exceeds the theory's, against the "
            "separation Δ*/q that two replicas of the theory go to: 0 is stable. Points where "
            "theory has no overlap at all are left out. Bars: 95 % t intervals over instances.",
            "Relative excess of the overlaps m and θ against the predicted separation of replicas.",
            lambda: _instability(e),
            e.part("open questions").ids,
        ),
        Figure(
            "ridge",
            f"Choosing λ from training data (D = {settings.ridge_dim:,})",
            "Test error of the semantic solution against λ, and its prediction by k-fold "
            "cross-validation and by leave-one-out from one fit. "
            "Bars: 95 % t intervals over instances.",
            "Three curves against λ for each α: test error, k folds, leave-one-out.",
            lambda: _ridge(e),
            e.part("ridge").ids,
        ),
        Figure(
            "scaling",
            "Why the factors 1/√D matter",
            "Variance of the attention scores at the semantic start, with the paper's scaling and "
            "without: without it the scores grow with D and the softmax saturates. "
            "Bars: 95 % t intervals of the logarithm over instances.",
            "Score variance against D with and without the factors 1/√D, on log axes.",
            lambda: _scaling(e),
            e.part("scaling").ids,
        ),
    ]


def _finite_size(e: Evidence) -> Drawing:
    sizes = size_crossings(e)
    theory, _ = e.critical_at("alpha_c")
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.9)
        errorbars(left, list(sizes), list(sizes.values()), NEUTRAL)
        if np.isfinite(theory.value):
            left.axhspan(theory.low, theory.high, color=NEUTRAL, alpha=0.25, linewidth=0)
            left.axhline(theory.value, color=NEUTRAL)
            left.annotate(
                "theory",
                (1.02, theory.value),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8,
                annotation_clip=False,
            )
        left.set_ylabel("crossing of the losses $α_c$")
        shades = ("#0B3C86", POSITIONAL, "#6FA8F5")
        points = sorted(
            (p for p in e.open_points() if p.branch == "positional" and p.separation > 0),
            key=lambda p: -p.separation,
        )
        for colour, p in zip(shades, points, strict=False):  # the three least stable points
            _m_ratio(right, e, p.omega, p.alpha, colour)
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


def _instability(e: Evidence) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.1)
        ax.axhline(0, color=NEUTRAL, linewidth=0.8)
        for p in e.open_points():
            if np.isfinite(p.gap.value + p.separation):
                errorbars(ax, [p.separation], [p.gap], COLOURS[p.branch])
                direct_label(
                    ax,
                    [p.separation],
                    [p.gap.value],
                    f"ω={p.omega:g}, α={p.alpha:g}",
                    COLOURS[p.branch],
                )
        ax.set_xscale("symlog", linthresh=0.01)
        ax.set_xlim(-0.001, 2.0)
        ax.set_xticks([0, 0.01, 0.1, 1.0], ["0", "0.01", "0.1", "1"])
        ax.set_xlabel("separation Δ*/q of two replicas of the theory")
        ax.set_ylabel("overlap: simulation / theory − 1")
        for y, name in ((0.97, "positional"), (0.89, "semantic")):
            ax.text(
                0.02,
                y,
                name,
                color=COLOURS[name],
                transform=ax.transAxes,
                va="top",
                fontweight="bold",
                fontsize=8,
            )
    return drawing


def _ridge(e: Evidence) -> Drawing:
    groups = e.part("ridge").groups("alpha")
    with house_style():
        drawing, axes = panels(1, max(1, len(groups)), height=2.8)
        for ax, ((alpha,), rows) in zip(axes, groups.items(), strict=False):
            ridges = list(rows.rows[0]["ridges"])
            for name, colour, words in (
                ("test", SEMANTIC, "test"),
                ("cv", LINEAR, "folds"),
                ("loo", NEUTRAL, "one fit"),
            ):
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
            ("paper", NEUTRAL, "with 1/√D"),
            ("unscaled", SEMANTIC, "without"),
        ):
            rows = e.part("scaling").where(scaling=scaling)
            found = over_instances(rows, lambda r: float(np.log(r["score_variance"])), "dim")
            dims = [key[0] for key in found]
            shown = [
                replace(x, value=np.exp(x.value), low=np.exp(x.low), high=np.exp(x.high))
                for x in found.values()
            ]
            errorbars(ax, dims, shown, colour)
            if dims:
                direct_label(ax, [dims[-1]], [shown[-1].value], words, colour)
        log_axis(ax, "y")
        _dimensions(ax, e.settings.unscaled_dims)
        ax.set_ylabel("variance of the scores at W = W*")
    return drawing
