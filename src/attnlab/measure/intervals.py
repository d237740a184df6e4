"""Estimates with intervals: t over seeds, Wilson and bootstrap over items.

Another seed gives another model, and other test items give another mean. An interval that is to
cover both (`two_way_interval`) adds the two variances:

    s² = s²(means of seeds) / seeds + s²(means of items) / items        t by Welch–Satterthwaite

What is particular to one item of one seed is counted in both terms, so the interval is rather too
long than too short. Where nothing was trained there are no seeds: only the items are resampled.

scipy is imported where it is needed, because its import takes half of a command's start-up time.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from attnlab.core.seeds import Seed

AT_ONCE = 1 << 22  # items of a bootstrap held in memory together
LEVEL = 0.95
MIN_BOOTSTRAP_ITEMS = 20


@dataclass(frozen=True)
class Estimate:
    """A value and its interval at 95 % unless `method` says otherwise; `exact`: no sampling."""

    value: float
    low: float = math.nan
    high: float = math.nan
    n: int = 0
    method: str = ""
    exact: bool = False
    recompute: "Callable[[float], Estimate] | None" = field(default=None, compare=False, repr=False)

    def at(self, level: float) -> "Estimate":
        """The same estimate with its interval at another level, as a correction needs it."""
        return self if self.recompute is None else self.recompute(level)

    def transform(self, change: "Callable[[Estimate], Estimate]") -> "Estimate":
        """Changed in the same way at every level: `e.transform(lambda e: replace(e, n=1))`."""
        recompute = self.recompute
        again = None if recompute is None else lambda level: recompute(level).transform(change)
        return replace(change(self), recompute=again)

    def clip(self, low: float = 0.0, high: float = 1.0) -> "Estimate":
        """The interval cut to what is possible; by default to that of a share."""
        return self.transform(lambda e: replace(e, low=max(e.low, low), high=min(e.high, high)))

    @property
    def has_interval(self) -> bool:
        """False when there were too few runs for an interval."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2


def mean_interval(values: ArrayLike, level: float = LEVEL) -> Estimate:
    """mean ± t(n−1)·s/√n over independent runs; no interval for n < 2."""
    v = np.asarray(values, dtype=float)
    v = v[np.isfinite(v)]
    method = f"t interval over runs, {percent(level)}"
    if v.size == 0:
        return Estimate(math.nan, n=0, method=method)
    mean = float(v.mean())
    if v.size < 2:
        return Estimate(mean, n=1, method=method)
    half = t_quantile((1 + level) / 2, v.size - 1) * float(v.std(ddof=1)) / math.sqrt(v.size)
    again = partial(mean_interval, v)
    return Estimate(mean, mean - half, mean + half, int(v.size), method, recompute=again)


def exp_estimate(logs: Estimate) -> Estimate:
    """An estimate of a logarithm, turned into one of a positive quantity such as a perplexity."""
    return logs.transform(_exp)


def _exp(logs: Estimate) -> Estimate:
    ends = {"low": math.exp(logs.low), "high": math.exp(logs.high)} if logs.has_interval else {}
    return replace(logs, value=math.exp(logs.value), method=f"exp of: {logs.method}", **ends)


def geometric_mean(values: ArrayLike) -> Estimate:
    """exp of the mean logarithm with its t interval; with a 0 among them the mean, no interval."""
    v = np.asarray(values, dtype=float)
    if not v.size or not np.all(v > 0):
        return Estimate(float(v.mean()) if v.size else math.nan, n=int(v.size), method="mean")
    return exp_estimate(mean_interval(np.log(v)))


def percent(level: float) -> str:
    """A confidence level in words: 95 %, 99.44 %."""
    return f"{100 * level:.4g} %"


def t_quantile(p: float, freedom: int) -> float:
    """Quantile of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, p))


def bootstrap_mean(
    items: ArrayLike, rng: np.random.Generator, level: float = LEVEL, draws: int = 10_000
) -> Estimate:
    """Percentile bootstrap of the mean over items (test rows); not for a few seeds."""
    v = np.asarray(items, dtype=float)
    if v.size < MIN_BOOTSTRAP_ITEMS:
        raise ValueError(f"bootstrap over {v.size} items: too few, use mean_interval")
    rows = max(1, AT_ONCE // v.size)  # drawn in pieces: 10,000 draws of 50,000 items are 4 GB
    means = np.concatenate(
        [
            v[rng.integers(0, v.size, size=(min(rows, draws - start), v.size))].mean(axis=1)
            for start in range(0, draws, rows)
        ]
    )
    return quantile_interval(float(v.mean()), means, "bootstrap over items", int(v.size), level)


def quantile_interval(
    value: float, draws: np.ndarray, method: str, n: int, level: float = LEVEL
) -> Estimate:
    """The middle part of bootstrap draws as an interval; another level needs no new draws."""
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    again = partial(quantile_interval, value, draws, method, n)
    words = f"{method}, {percent(level)}"
    return Estimate(value, float(low), float(high), n, words, recompute=again)


def mean_over_items(items: np.ndarray, rng: np.random.Generator, level: float = LEVEL) -> Estimate:
    """The mean over test items: a bootstrap, or Student's t where there are fewer than 20."""
    if items.size >= MIN_BOOTSTRAP_ITEMS:
        return bootstrap_mean(items, rng, level)
    return mean_interval(items, level).transform(
        lambda e: replace(e, method=e.method.replace("over runs", "over items"))
    )


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


def wilson(successes: int, n: int, level: float = LEVEL) -> Estimate:
    """(p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n): a share of n items (Wilson 1927).

    Unlike p ± z√(p(1−p)/n) it stays within 0 … 1 and is informative at 0, at n and for small n.
    """
    method = f"Wilson interval over items, {percent(level)}"
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} items: not a share")
    if n == 0:
        return Estimate(math.nan, n=0, method=method)
    p, z = successes / n, z_quantile((1 + level) / 2)
    low, high = score_limits(p, n, z)
    return Estimate(p, low, high, n, method, recompute=partial(wilson, successes, n))


def score_limits(p: float, n: float, z: float) -> tuple[float, float]:
    """The ends of Wilson's interval: the shares whose z√(share(1−share)/n) just reaches p."""
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    return (0.0 if p == 0 else middle - half, 1.0 if p == 1 else middle + half)  # exact ends


def difference_of_shares(
    one: tuple[int, int], other: tuple[int, int], level: float = LEVEL
) -> Estimate:
    """k₁/n₁ − k₂/n₂ of unpaired items, from both Wilson intervals (Newcombe 1998, method 10)."""
    a, b = wilson(*one, level), wilson(*other, level)
    gap, low, high = difference_limits(a, b)
    method = f"Newcombe's interval over items, {percent(level)}"
    again = partial(difference_of_shares, one, other)
    return Estimate(gap, low, high, a.n + b.n, method, recompute=again)


def difference_limits(a: Estimate, b: Estimate) -> tuple[float, float, float]:
    """a − b of independent estimates, and the ends of its interval from both of theirs."""
    gap = a.value - b.value
    low = gap - math.hypot(a.value - a.low, b.high - b.value)
    return gap, low, gap + math.hypot(a.high - a.value, b.value - b.low)


def z_quantile(p: float) -> float:
    """Quantile of the normal distribution."""
    from scipy.special import ndtri

    return float(ndtri(p))
