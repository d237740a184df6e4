"""Estimates with intervals: t over seeds, bootstrap over items, Holm over many comparisons."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Estimate:
    """A value and its interval at 95 % unless `method` says otherwise; `exact`: no sampling."""

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    method: str = ""
    exact: bool = False

    @property
    def has_interval(self) -> bool:
        """False when too few runs gave an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def half_width(self) -> float:
        """(high - low) / 2."""
        return (self.high - self.low) / 2


def mean_interval(values: ArrayLike, level: float = 0.95) -> Estimate:
    """mean ± t(n−1)·s/√n over independent runs; no interval for n < 2."""
    v = np.asarray(values, dtype=float)
    v = v[np.isfinite(v)]
    method = f"t interval over runs, {level:.0%}"
    if v.size == 0:
        return Estimate(math.nan, n=0, method=method)
    mean = float(v.mean())
    if v.size < 2:
        return Estimate(mean, n=1, method=method)
    half = t_quantile((1 + level) / 2, v.size - 1) * float(v.std(ddof=1)) / math.sqrt(v.size)
    return Estimate(mean, mean - half, mean + half, int(v.size), method)


def t_quantile(p: float, freedom: int) -> float:
    """Quantile of Student's t. Imported when asked for: scipy is half of a command's start."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, p))


def paired_difference(a: ArrayLike, b: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of a_i − b_i over runs that share everything but the arm (t interval)."""
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if x.shape != y.shape:
        raise ValueError(f"paired runs must match: {x.shape} against {y.shape}")
    e = mean_interval(x - y, level)
    return Estimate(e.value, e.low, e.high, e.n, f"paired t interval over runs, {level:.0%}")


def bootstrap_mean(
    items: ArrayLike, rng: np.random.Generator, level: float = 0.95, draws: int = 10_000
) -> Estimate:
    """Percentile bootstrap of the mean over items (test rows); never use it over a few seeds."""
    v = np.asarray(items, dtype=float)
    if v.size < 20:
        raise ValueError(f"bootstrap over {v.size} items: too few, use mean_interval")
    means = v[rng.integers(0, v.size, size=(draws, v.size))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    method = f"bootstrap over items, {level:.0%}"
    return Estimate(float(v.mean()), float(low), float(high), int(v.size), method)


def t_test_p(values: ArrayLike) -> float:
    """Two-sided p of "the mean is zero"; exactly equal runs give 0 or 1 without a warning."""
    v = np.asarray(values, dtype=float)
    if v.size < 2:
        return math.nan
    spread = v.std(ddof=1)
    if spread == 0:
        return 1.0 if v.mean() == 0 else 0.0
    t = v.mean() / (spread / math.sqrt(v.size))
    from scipy.special import stdtr

    return float(2 * stdtr(v.size - 1, -abs(t)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values, in the order given."""
    order = np.argsort(p_values)
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted
