"""Intervals of scores that vary with the test items and with the seed of a training.

Another seed gives another model, and other test items give another mean. An interval that is to
cover both adds the two variances:

    s² = s²(means of seeds) / seeds + s²(means of items) / items        t by Welch–Satterthwaite

What is particular to one item of one seed is counted in both terms, so the interval is rather too
long than too short. Where nothing was trained there are no seeds: only the items are resampled.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from attnlab.core.seeds import Seed
from attnlab.measure.intervals import LEVEL, Estimate, mean_over_items, percent, t_quantile


def two_way_interval(values: np.ndarray, level: float = LEVEL) -> Estimate:
    """Mean of an array (seeds, items) with an interval that covers both; `n` counts the seeds."""
    seeds, items = values.shape
    of_seeds = float(values.mean(axis=1).var(ddof=1)) / seeds
    of_items = float(values.mean(axis=0).var(ddof=1)) / items if items > 1 else math.nan
    method = f"t interval over seeds and items, {percent(level)}"
    again = partial(two_way_interval, values)
    e = Estimate(float(values.mean()), n=seeds, method=method, recompute=again)
    square = of_seeds + of_items
    if math.isnan(square):
        return e
    if square == 0:
        return replace(e, low=e.value, high=e.value)
    freedom = square**2 / (of_seeds**2 / (seeds - 1) + of_items**2 / (items - 1))
    half = t_quantile((1 + level) / 2, max(1, int(freedom))) * math.sqrt(square)
    return replace(e, low=e.value - half, high=e.value + half)


def item_interval(values: np.ndarray, name: str, level: float = LEVEL) -> Estimate:
    """Mean over items: a bootstrap seeded by `name`, or Student's t where items are few."""
    rng = Seed(0).child("distillation", name).numpy_generator()
    return mean_over_items(values, rng, level)
