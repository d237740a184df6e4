"""Where a measured curve crosses zero, with an interval over independent runs."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from attnlab.measure.intervals import LEVEL, Estimate, percent, t_quantile

Finder = Callable[[np.ndarray, np.ndarray], float]


def last_crossing(x: np.ndarray, y: np.ndarray) -> float:
    """Where y(x) goes from negative to positive for the last time; NaN when it never does."""
    order = np.argsort(x)
    x, y = np.asarray(x)[order], np.asarray(y)[order]
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    ups = [i for i in range(len(x) - 1) if y[i] < 0 <= y[i + 1]]
    if not ups:
        return math.nan
    i = ups[-1]
    return float(x[i] - y[i] * (x[i + 1] - x[i]) / (y[i + 1] - y[i]))


def line_crossing(x: np.ndarray, y: np.ndarray) -> float:
    """The zero of a straight line through y(x)."""
    slope, level = np.polyfit(x, y, 1)
    return float(-level / slope)


def mean_crossing(
    x: np.ndarray, runs: np.ndarray, find: Finder = line_crossing, level: float = LEVEL
) -> Estimate:
    """Where the mean over runs (one row each) crosses zero, with a jackknife t interval.

    Runs without a crossing of their own count too: dropping them would bias the mean. Only runs
    that lack a point are left out.
    """
    runs = runs[np.isfinite(runs).all(axis=1)]
    n = len(runs)
    if n < 2 or x.size < 2:
        return Estimate(math.nan, n=n, method="too few instances to fit a line")
    whole = find(x, runs.mean(axis=0))
    left = np.array([find(x, np.delete(runs, i, axis=0).mean(axis=0)) for i in range(n)])
    spread = math.sqrt((n - 1) / n * float(((left - left.mean()) ** 2).sum()))
    half = t_quantile((1 + level) / 2, n - 1) * spread
    method = f"crossing of the mean, jackknife t interval over {n} instances, {percent(level)}"
    again = partial(mean_crossing, x, runs, find)
    return Estimate(whole, whole - half, whole + half, n, method, recompute=again)
