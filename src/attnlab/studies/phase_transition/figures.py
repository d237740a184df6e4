"""What the report shows: Figures 2 and 3 of the paper, then what is beyond them."""

from functools import partial

from attnlab.lab.study import Figure
from attnlab.lab.table import Row
from attnlab.report.prose import Drawn, with_words
from attnlab.studies.phase_transition.beyond import (
    draw_finite_size,
    draw_instability,
    draw_ridge,
    draw_scaling,
)
from attnlab.studies.phase_transition.curves import draw_figure_two
from attnlab.studies.phase_transition.evidence import Evidence, excess, gap
from attnlab.studies.phase_transition.maps import draw_critical_lines, draw_maps, draw_overlaps
from attnlab.studies.phase_transition.study import PhaseTransition


def figures(study: PhaseTransition, e: Evidence) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    curves, cells, open_ids = (e.part(p).ids for p in ("Figure 2", "Figure 3", "open questions"))
    two = curves + e.table.where(kind="curve").ids if curves else ()
    three = cells + e.table.where(kind="critical").ids if cells else ()
    test_gap = partial(gap, quantity="test_error")
    drawn: dict[str, Drawn] = {
        "figure-2": (partial(draw_figure_two, e, "train_error"), two),
        "figure-2-test": (partial(draw_figure_two, e, "test_error"), two),
        "figure-3": (partial(draw_maps, e, "$Δε_t$", gap, excess), three),
        "figure-3-test": (partial(draw_maps, e, "$Δε_g$", test_gap, _semantic_excess), three),
        "figure-3-overlaps": (partial(draw_overlaps, e), three),
        "critical-lines": (partial(draw_critical_lines, e), three),
        "finite-size": (partial(draw_finite_size, e), e.part("finite size").ids + open_ids),
        "instability": (partial(draw_instability, e), open_ids),
        "ridge": (partial(draw_ridge, e), e.part("ridge").ids),
        "scaling": (partial(draw_scaling, e), e.part("scaling").ids),
    }
    return with_words(study, drawn)


def _semantic_excess(row: Row) -> float:
    return row["semantic_test_error"] - row["linear_test_error"]
