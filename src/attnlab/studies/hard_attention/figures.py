"""Figures: the staircase, slopes against temperature, who carries them, learning, accuracy."""

from functools import partial

from attnlab.lab.study import Figure
from attnlab.report.prose import Drawn, with_words
from attnlab.studies.hard_attention import slope_figures, task_figures
from attnlab.studies.hard_attention.evidence import Evidence
from attnlab.studies.hard_attention.study import HardAttention


def figures(study: HardAttention, e: Evidence) -> list[Figure]:
    """What the report shows, in its order; a figure without trials is left out."""
    drawn: dict[str, Drawn] = {
        "staircase": (partial(slope_figures.staircase, e), e.table.where(kind="given").ids),
        "slopes": (partial(slope_figures.slopes, e), e.slopes.ids),
        "carried": (partial(slope_figures.carried, e), e.slopes.ids),
        "learning": (partial(task_figures.learning, e), e.ids()),
        "accuracy": (partial(task_figures.accuracy, e), e.ids()),
        "rates": (partial(task_figures.by_rate, e), e.table.where(kind="model").ids),
    }
    return with_words(study, drawn)
