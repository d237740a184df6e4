"""Shares of right answers over seeds: another seed is another model, tested on other items.

The share p of all n answers that m seeds gave has the variance p(1−p)/n only if the seeds do not
differ. Otherwise it is larger by a factor, the design effect (Kish 1965):

    d = max(1, v n / (p(1−p))),     v = m/(m−1) · Σ (kᵢ − p nᵢ)² / n²     kᵢ right of nᵢ in seed i

so that n answers are worth n/d independent ones. The interval is Wilson's for that many, with
Student's t of m−1 degrees of freedom for the normal quantile, since d is estimated from m seeds.
It stays within 0 and 1, and it has a length where all seeds agree: 500 of 500 in each of three
seeds are [0.988, 1]. Where every seed is tested on the same items, more seeds are not more items:
then d = m + v n/(p(1−p)), which counts what is particular to one item of one seed twice, and t has
the degrees of freedom of a sum of two variances, as in two_way_interval.

Simulated seeds whose shares follow a beta distribution are covered 94 to 100 % of the time in most
cases, and less often near 1 when seeds differ, for few seeds do not show a rare one that fails:
mean 0.95, correlation 0.05 within a seed 93 %, correlation 0.2 83 %; mean 0.99, correlation 0.2
48 % (five seeds of 500 items; Student's t over seeds 40 %, pooled answers 10 %). tests/measure
checks cases of the first kind only.
"""

import math
from collections.abc import Sequence
from functools import partial

from attnlab.measure.intervals import (
    LEVEL,
    Estimate,
    difference_limits,
    mean_interval,
    percent,
    score_limits,
    t_quantile,
    z_quantile,
)

ROUNDING = 1e-12  # of a difference of two shares
Counts = Sequence[tuple[float, float]]  # right answers and items of each seed


def share_interval(counts: Counts, level: float = LEVEL, *, same_items: bool = False) -> Estimate:
    """The share of right answers with an interval over seeds and items; `n` counts the seeds.

    Of one seed the interval is Wilson's, and covers other items only.
    """
    known = [(right, items) for right, items in counts if items > 0]
    if not known:
        return Estimate(math.nan, method="nothing was asked")
    p, items = pooled_share(known), effective_items(known, same_items=same_items)
    if len(known) == 1:
        quantile, over = z_quantile((1 + level) / 2), "items of one seed"
    else:
        freedom = _degrees_of_freedom(known, same_items)
        quantile, over = t_quantile((1 + level) / 2, freedom), "seeds and items"
    low, high = score_limits(p, items, quantile)
    method = f"Wilson interval over {over}, {percent(level)}"
    again = partial(share_interval, known, same_items=same_items)
    return Estimate(p, low, high, len(known), method, recompute=again)


def pooled_share(counts: Counts) -> float:
    """Right answers of all seeds over items of all seeds."""
    if any(not 0 <= right <= items for right, items in counts):
        raise ValueError(f"{list(counts)}: right answers and items of each seed are wanted")
    return sum(right for right, _ in counts) / sum(items for _, items in counts)


def effective_items(counts: Counts, *, same_items: bool = False) -> float:
    """The number of independent answers that say as much as all answers of all seeds, n/d."""
    items, seeds = sum(n for _, n in counts), len(counts)
    if seeds == 1:
        return items
    factor = _seed_factor(counts)
    return items / (seeds + factor if same_items else max(1.0, factor))


def _seed_factor(counts: Counts) -> float:
    """v n / (p(1−p)): the variance between seeds in units of that of n independent answers."""
    p, items, seeds = pooled_share(counts), sum(n for _, n in counts), len(counts)
    spread = sum((right - p * n) ** 2 for right, n in counts) / items**2 * seeds / (seeds - 1)
    return spread * items / (p * (1 - p)) if 0 < p < 1 else 0.0


def _degrees_of_freedom(counts: Counts, same_items: bool) -> int:
    """Degrees of freedom: m − 1, or those of a sum of two variances (Welch–Satterthwaite)."""
    seeds = len(counts)
    if not same_items:
        return seeds - 1
    items, factor = sum(n for _, n in counts) / seeds, _seed_factor(counts)
    square = factor**2 / (seeds - 1) + seeds**2 / max(1.0, items - 1)
    return max(1, int((factor + seeds) ** 2 / square))


def share_difference(
    one: Counts, other: Counts, level: float = LEVEL, *, same_items: bool = False
) -> Estimate:
    """one − other, paired by seed: Student's t over seeds, which also covers the items of each.

    Where it is equal in every seed, that interval has no length. Then it is Newcombe's, from the
    intervals of both shares, as if other items had been given to each.
    """
    gaps = [a / n - b / k for (a, n), (b, k) in zip(one, other, strict=True)]
    e = mean_interval(gaps, level)
    if not e.has_interval or e.half_width > ROUNDING:
        return e
    pair = [share_interval(counts, level, same_items=same_items) for counts in (one, other)]
    gap, low, high = difference_limits(*pair)
    method = f"Newcombe's interval over seeds and items, {percent(level)}"
    again = partial(share_difference, one, other, same_items=same_items)
    return Estimate(gap, low, high, e.n, method, recompute=again)
