"""Figures: the staircase, slopes against temperature, who carries them, learning, accuracy."""

from typing import TYPE_CHECKING

from attnlab.lab.study import Figure
from attnlab.studies.hard_attention import slope_figures, task_figures
from attnlab.studies.hard_attention.evidence import Evidence

if TYPE_CHECKING:
    from attnlab.studies.hard_attention.study import HardAttention


def figures(study: "HardAttention", e: Evidence) -> list[Figure]:
    """What the report shows, in its order; a figure without trials is left out."""
    models = tuple(e.ids())
    every = tuple(e.table.where(kind="model").ids)
    shown = [
        Figure(
            "staircase",
            "The given example: its query turned through a full circle",
            "Left: the keys with their values; across the orange rays argmax picks another key. "
            "Middle: the output. Argmax is a staircase: flat, then a jump. Right: how much the "
            "output changes a degree. Cooling the softmax squeezes the slope into ever narrower, "
            "higher peaks at the jumps; between them nothing is left.",
            "Three panels: keys in the plane; output against the direction of the query for three "
            "temperatures and argmax; slope of the output.",
            lambda: slope_figures.staircase(e),
            e.table.where(kind="given").ids,
        ),
        Figure(
            "slopes",
            "Slope of the output against temperature",
            "Filled: by autograd; hollow: by finite differences of the same forward pass. Softmax "
            "(circles): both agree, until rounding hides the differences. Straight-through "
            "(squares): autograd reports exactly softmax's slope for query and keys, finite "
            "differences find 0. Argmax (line): 0 by both; only values keep a slope. Medians over "
            "instances, geometric mean over sets (hollow: the middle set); bars: 95 % t intervals "
            "over sets, in the logarithm, cut above the grey band of 0; straight-through's are "
            "softmax's.",
            "Three panels, log axes: slope of query, keys and values against temperature for "
            "softmax, straight-through and argmax.",
            lambda: slope_figures.slopes(e),
            e.slopes.ids,
        ),
        Figure(
            "carried",
            "The typical slope vanishes, the mean does not",
            f"Over {study.settings.many:,} instances per set. Left: median and mean of the query "
            "slope of softmax. Right: the share of instances that carries half of the squared "
            "slope: as T "
            "falls, fewer and fewer near-ties. Bars: 95 % t intervals over sets, smaller than the "
            "points where not seen.",
            "Two panels against temperature: median and mean slope; share of instances that carry "
            "it.",
            lambda: slope_figures.carried(e),
            e.slopes.ids,
        ),
        Figure(
            "learning",
            "Learning to look up",
            "Accuracy on dev rows while training, each arm at its best learning rate; mean over "
            "seeds, bands: 95 % t intervals over seeds. Dotted: rules that need no model.",
            "Accuracy against training step, one line an arm, with three baselines.",
            lambda: task_figures.learning(e),
            models,
        ),
        Figure(
            "accuracy",
            "Test accuracy, and how often the right item is found",
            "Left: test accuracy as trained (filled), and read with argmax instead (hollow); small "
            "marks: single models; bars: 95 % t intervals over seeds; dotted: rules that need no "
            "model. Right: share of rows in which the largest weight lies on the item asked for, "
            "before (hollow) and after training (filled).",
            "Dot plots by arm: accuracy with baselines; share of items found before and after.",
            lambda: task_figures.accuracy(e),
            models,
        ),
        Figure(
            "rates",
            "No learning rate saves it",
            "Test accuracy against the learning rate, mean and 95 % t interval over seeds. An arm "
            "is judged at the rate that is best for it on dev rows.",
            "Accuracy against learning rate, one line an arm.",
            lambda: task_figures.by_rate(e),
            every,
        ),
    ]
    return [figure for figure in shown if figure.trials]
