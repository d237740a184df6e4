"""What the report shows: Figures 2 and 3 of the paper, then what is beyond them.

Beyond the paper: finite D, the instability of the theory, the choice of λ, the scaling.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.measure.intervals import exp_estimate
from attnlab.report.labels import note, write
from attnlab.report.plots import draw_estimates
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    house_style,
    log_axis,
    panels,
)
from attnlab.studies.phase_transition.evidence import Evidence, chosen, excess, gap, over_instances
from attnlab.studies.phase_transition.paper_figures import (
    COLOURS,
    draw_critical_lines,
    draw_figure_two,
    draw_maps,
)
from attnlab.studies.phase_transition.study import PhaseTransition

SHADES = ("#0B3C86", POSITIONAL, "#6FA8F5")  # the three least stable points
BETWEEN, OVER_LINEAR = "positional − semantic", "$ε_g$ − $ε_g$ of the linear map"


def figures(study: PhaseTransition, e: Evidence) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    curves, cells, open_ids = (e.part(p).ids for p in ("Figure 2", "Figure 3", "open questions"))
    two = curves + e.table.where(kind="curve").ids if curves else ()
    three = cells + e.table.where(kind="critical").ids if cells else ()
    in_training = {f"$Δε_t$: {BETWEEN}": gap, OVER_LINEAR: excess}
    in_test = {
        f"$Δε_g$: {BETWEEN}": partial(gap, quantity="test_error"),
        OVER_LINEAR: lambda row: row["semantic_test_error"] - row["linear_test_error"],
    }
    overlaps = {
        f"overlap {symbol}": partial(chosen, quantity=name)
        for symbol, name in {"m": "m", "θ": "theta"}.items()
    }
    drawn: dict[str, Drawn] = {
        "figure-2": (partial(draw_figure_two, e, "train_error"), two),
        "figure-2-test": (partial(draw_figure_two, e, "test_error"), two),
        "figure-3": (partial(draw_maps, e, in_training), three),
        "figure-3-test": (partial(draw_maps, e, in_test), three),
        "figure-3-overlaps": (
            partial(draw_maps, e, overlaps, ("alpha_c", "alpha_w"), top=True),
            three,
        ),
        "critical-lines": (partial(draw_critical_lines, e), three),
        "finite-size": (partial(draw_finite_size, e), e.part("finite size").ids + open_ids),
        "instability": (partial(draw_instability, e), open_ids),
        "ridge": (partial(draw_ridge, e), e.part("ridge").ids),
        "scaling": (partial(draw_scaling, e), e.part("scaling").ids),
    }
    return with_words(study, drawn)


def _dimension_axis(ax: Axes, dims: Sequence[int]) -> None:
    """A log axis of D with a tick at every D that was run: 500, 1k, 2.5k."""
    log_axis(ax, "x", {d: f"{d / 1000:g}k" if d >= 1000 else str(d) for d in dims})
    ax.set_xlabel("dimension D")


def draw_finite_size(e: Evidence) -> Drawing:
    """α_c of simulation against D; m of the positional branch over the theory's."""
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.9)
        draw_estimates(left, e.size_crossings, NEUTRAL)
        theory = e.critical_at("alpha_c")
        if np.isfinite(theory.value):
            left.axhspan(theory.low, theory.high, color=NEUTRAL, alpha=0.25, linewidth=0)
            left.axhline(theory.value, color=NEUTRAL)
            note(
                left,
                "theory",
                (1.02, theory.value),
                xycoords=("axes fraction", "data"),
                va="center",
                annotation_clip=False,
            )
        left.set_ylabel("crossing of the losses $α_c$")
        points = [p for p in e.open_points if p.branch == "positional" and p.separation > 0]
        points.sort(key=lambda p: -p.separation)
        for colour, p in zip(SHADES, points, strict=False):
            rows = e.part("open questions").where(omega=p.omega, alpha=p.alpha)
            ratios = over_instances(rows, lambda r, m=p.theory["m"]: r["positional_m"] / m, "dim")
            draw_estimates(right, ratios, colour, p.label, "s")
        right.axhline(1, color=NEUTRAL)
        right.set_ylabel("m simulation / m theory (positional)")
        _dimension_axis(left, e.settings.sizes)
        _dimension_axis(right, e.settings.open_dims)
    return drawing


def draw_instability(e: Evidence) -> Drawing:
    """Excess of the overlaps over theory against the separation of the theory's replicas."""
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.1)
        ax.axhline(0, color=NEUTRAL, linewidth=0.8)
        for p in e.measured_points:
            draw_estimates(ax, {p.separation: p.gap}, COLOURS[p.branch], p.label)
        ax.set_xscale("symlog", linthresh=0.01)
        ax.set_xlim(-0.001, 2.0)
        ax.set_xticks([0, 0.01, 0.1, 1.0], ["0", "0.01", "0.1", "1"])
        ax.set_xlabel("separation Δ*/q of two replicas of the theory")
        ax.set_ylabel("overlap: simulation / theory − 1")
        write(ax, 0.02, 0.97, "positional", POSITIONAL)
        write(ax, 0.02, 0.89, "semantic", SEMANTIC)
    return drawing


def draw_ridge(e: Evidence) -> Drawing:
    """Test error against λ, and its two estimates from training data, a panel for each α."""
    groups = e.part("ridge").groups("alpha")
    looks = {"test": (SEMANTIC, "test"), "cv": (LINEAR, "folds"), "loo": (NEUTRAL, "one fit")}
    with house_style():
        drawing, axes = panels(1, max(1, len(groups)), height=2.8)
        for ax, ((alpha,), rows) in zip(axes, groups.items(), strict=False):
            for name, (colour, label) in looks.items():
                draw_estimates(ax, e.by_ridge(rows, f"semantic_{name}"), colour, label, line=0.8)
            log_axis(ax, "x")
            ax.set(title=f"α = {alpha:g}", xlabel="ridge λ", ylabel="error on unseen data $ε_g$")
    return drawing


def draw_scaling(e: Evidence) -> Drawing:
    """Variance of the scores at W* against D, with and without the factors 1/√D."""
    looks = {"paper": (NEUTRAL, "with 1/√D"), "unscaled": (SEMANTIC, "without")}
    with house_style():
        drawing, (ax,) = panels(1, 1, height=2.7)
        for scaling, (colour, label) in looks.items():
            rows = e.part("scaling").where(scaling=scaling)
            logs = over_instances(rows, lambda r: float(np.log(r["score_variance"])), "dim")
            draw_estimates(ax, {dim: exp_estimate(x) for dim, x in logs.items()}, colour, label)
        log_axis(ax, "y")
        _dimension_axis(ax, e.settings.unscaled_dims)
        ax.set_ylabel("variance of the scores at W = W*")
    return drawing
