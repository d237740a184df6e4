"""What the report shows: Figures 2 and 3 of the paper, then what is beyond them."""

from functools import partial
from typing import TYPE_CHECKING

from attnlab.lab.study import Figure
from attnlab.lab.table import Row
from attnlab.studies.phase_transition.beyond import (
    draw_finite_size,
    draw_instability,
    draw_ridge,
    draw_scaling,
)
from attnlab.studies.phase_transition.curves import draw_figure_two
from attnlab.studies.phase_transition.evidence import Evidence, excess, gap
from attnlab.studies.phase_transition.maps import draw_critical_lines, draw_maps, draw_overlaps

if TYPE_CHECKING:
    from attnlab.studies.phase_transition.study import PhaseTransition

T_BARS = "Bars: 95 % t intervals over instances."
POINTS = f"{T_BARS} Points: simulation; lines: theory (D → ∞)."
LINES = "Lines: α_c (solid), α_l (dashed), α_w (dotted), computed by theory."


def figures(study: "PhaseTransition", e: Evidence) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    shown = [*_figure_two(e), *_figure_three(e), *_beyond(e)]
    return [figure for figure in shown if figure.trials]


def _figure_two(e: Evidence) -> list[Figure]:
    points = e.part("Figure 2").ids
    ids = points + e.table.where(kind="curve").ids if points else ()
    where = f"(D = {e.settings.curve_dim:,}, ω = {e.settings.omega:g})"
    return [
        Figure(
            "figure-2",
            f"Two solutions, one transition {where}",
            "Left: above zero the semantic solution has the lower training loss; the difference "
            "crosses zero at α_c (dotted: theory; hollow: published). Middle: the overlap that "
            "names each solution. Right: training loss of both, of a random start and of the "
            f"linear baseline. {POINTS}",
            "Three panels against α: the loss difference of the two solutions, their overlaps m "
            "and θ, and their training losses beside a random start and the linear baseline.",
            partial(draw_figure_two, e, "train_error"),
            ids,
        ),
        Figure(
            "figure-2-test",
            f"The same for test error {where}",
            "Left: test error of the positional minus the semantic solution. Middle: test error "
            "minus that of the linear baseline; below zero attention predicts better (α_l dotted). "
            f"Right: the test errors themselves. {POINTS}",
            "Three panels against α: the difference of the test errors of the two solutions, each "
            "minus the linear baseline, and the test errors themselves.",
            partial(draw_figure_two, e, "test_error"),
            ids,
        ),
    ]


def _semantic_excess(row: Row) -> float:
    return row["semantic_test_error"] - row["linear_test_error"]


def _figure_three(e: Evidence) -> list[Figure]:
    cells = e.part("Figure 3").ids
    ids = cells + e.table.where(kind="critical").ids if cells else ()
    dim = e.settings.map_dim
    explained = f"Each cell: mean of {e.settings.map_seeds} instances at D = {dim:,}. {LINES}"
    return [
        Figure(
            "figure-3",
            f"Phase diagrams (D = {dim:,})",
            "Left: training loss, positional − semantic; red: the semantic loss is lower. Right: "
            "test error of the solution with the lower loss minus the linear baseline's; blue: "
            f"attention is better. {explained}",
            "Two maps over α and ω with three critical lines on them.",
            partial(draw_maps, e, "$Δε_t$", gap, excess),
            ids,
        ),
        Figure(
            "figure-3-test",
            "The same in test error",
            "Left: test error, positional − semantic. Right: test error of the semantic solution "
            f"minus the linear baseline's. {explained}",
            "Two maps over α and ω of test-error differences.",
            partial(draw_maps, e, "$Δε_g$", partial(gap, quantity="test_error"), _semantic_excess),
            ids,
        ),
        Figure(
            "figure-3-overlaps",
            "Overlaps of the solution with the lower loss",
            "Overlap m with the positions and θ with the teacher, of the solution with the lower "
            f"training loss. {explained}",
            "Two maps over α and ω: overlap m and overlap θ of the lower-loss solution.",
            partial(draw_overlaps, e),
            ids,
        ),
        Figure(
            "critical-lines",
            "Critical points: theory, simulation, published",
            "Lines: theory. Points: where the mean losses of simulation cross, by interpolation; "
            f"bars: 95 % jackknife t intervals over instances (D = {dim:,}). Hollow: published "
            "at ω = 0.3.",
            "Critical α against ω: three lines of theory, points of simulation, published values.",
            partial(draw_critical_lines, e),
            ids,
        ),
    ]


def _beyond(e: Evidence) -> list[Figure]:
    open_ids = e.part("open questions").ids
    return [
        Figure(
            "finite-size",
            f"Simulation against D (ω = {e.settings.omega:g})",
            "Left: the crossing α_c of simulation for each D, as the zero of a straight line "
            "through the instances' means; the band is the theory's range over integration rules. "
            "Right: m of the positional solution over the theory's, where theory and gradient "
            "descent disagree most: a gap that stays as D grows is no finite-size effect. "
            "Bars: 95 % (left: jackknife; right: t).",
            "Crossing of the losses against D beside theory; overlap m over the theory's.",
            partial(draw_finite_size, e),
            e.part("finite size").ids + open_ids,
        ),
        Figure(
            "instability",
            "Where simulation and theory differ, theory is unstable",
            "How far the overlap of simulation (largest D) exceeds the theory's, against the "
            "separation Δ*/q that two replicas of the theory reach: 0 is stable. Points where "
            f"theory has no overlap at all are left out. {T_BARS}",
            "Relative excess of the overlaps m and θ against the predicted separation of replicas.",
            partial(draw_instability, e),
            open_ids,
        ),
        Figure(
            "ridge",
            f"Choosing λ from training data (D = {e.settings.ridge_dim:,})",
            "Test error of the semantic solution against λ, and its estimates by k-fold "
            f"cross-validation and by leave-one-out from one fit. {T_BARS}",
            "Three curves against λ for each α: test error, k folds, leave-one-out.",
            partial(draw_ridge, e),
            e.part("ridge").ids,
        ),
        Figure(
            "scaling",
            "Why the factors 1/√D matter",
            "Variance of the attention scores at the semantic start, with the paper's scaling and "
            "without: without it the scores grow with D and the softmax saturates. "
            "Bars: 95 % t intervals of the logarithm over instances.",
            "Score variance against D with and without the factors 1/√D, on log axes.",
            partial(draw_scaling, e),
            e.part("scaling").ids,
        ),
    ]
