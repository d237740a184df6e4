"""Is a model's confidence informative? Calibration, selective prediction, AUROC.

calibration      mean |accuracy − confidence| over bins; Brier: mean (confidence − right)²
selective        accuracy on the items kept when the least confident ones are not answered
auroc            P(score of one kind > score of the other) + ½ P(equal): ½ is chance, 1 is perfect
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from attnlab.measure.intervals import LEVEL, Estimate, percent, z_quantile
from attnlab.measure.shares import share_interval

HALVINGS = 60  # bisection steps: exact to the last digit of a float


@dataclass(frozen=True)
class Bin:
    """Items of similar confidence: their number, mean confidence, and accuracy."""

    items: int
    confidence: float
    accuracy: Estimate


@dataclass(frozen=True)
class Calibration:
    """Bins from least to most confident, the expected calibration error, and the Brier score.

    Even a perfectly calibrated model has an error above 0: accuracy fluctuates in every bin.
    """

    bins: tuple[Bin, ...]
    error: float
    brier: float


def calibration(confidence: ArrayLike, right: ArrayLike, bins: int = 10) -> Calibration:
    """Compare one model's confidences in 0 … 1 with correctness."""
    p, hit = _check_arrays(confidence, right)
    found = calibration_bins([(p, hit)], bins)
    gaps = [abs(b.accuracy.value - b.confidence) * b.items for b in found]
    return Calibration(found, sum(gaps) / len(p), float(np.mean((p - hit) ** 2)))


def calibration_bins(
    models: Sequence[tuple[ArrayLike, ArrayLike]], bins: int = 10, *, same_items: bool = False
) -> tuple[Bin, ...]:
    """Sort the items of all models by confidence into bins of equally many items (± 1).

    `models` are the confidences and correctness of one model each; the interval of a bin's accuracy
    covers other models and other items. `same_items`: every model was evaluated on the same items.
    """
    pairs = [_check_arrays(*model) for model in models]
    p, hit = (np.concatenate(values) for values in zip(*pairs, strict=True))
    model = np.repeat(np.arange(len(pairs)), [len(one) for one, _ in pairs])
    found: list[Bin] = []
    for part in np.array_split(np.argsort(p, kind="stable"), min(bins, len(p))):
        right, items = (np.bincount(model[part], w, len(pairs)) for w in (hit[part], None))
        share = share_interval(list(zip(right, items, strict=True)), same_items=same_items)
        found.append(Bin(len(part), float(p[part].mean()), share))
    return tuple(found)


@dataclass(frozen=True)
class SelectiveAccuracy:
    """Accuracy if only the share coverage[i] is answered: confidence >= threshold[i]."""

    threshold: np.ndarray
    coverage: np.ndarray
    accuracy: np.ndarray

    @property
    def area(self) -> float:
        """Mean accuracy over all coverages 1/n … 1; the plain accuracy if confidence is random."""
        steps = np.diff(np.concatenate([[0.0], self.coverage]))
        return float((self.accuracy * steps).sum())


def selective_accuracy(confidence: ArrayLike, right: ArrayLike) -> SelectiveAccuracy:
    """One point for each distinct confidence, from the highest to the lowest."""
    p, hit = _check_arrays(confidence, right)
    order = np.argsort(-p, kind="stable")
    ranked, total = p[order], np.cumsum(hit[order])
    last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
    kept = last + 1
    return SelectiveAccuracy(ranked[last], kept / len(p), total[last] / kept)


def auroc(high: ArrayLike, low: ArrayLike, level: float = LEVEL) -> Estimate:
    """P(h > l) + ½ P(h = l) for the scores of two classes, with Newcombe's interval.

    The interval holds every θ whose own standard error explains the distance (Newcombe 2006, method
    5): |θ̂ − θ| <= z √(θ(1−θ)(1 + N((1−θ)/(2−θ) + θ/(1+θ))) / mn), N = (m+n)/2 − 1. It stays
    within 0 … 1 and is informative at both ends, where the usual one has length 0.
    """
    h, other = (np.sort(np.asarray(v, dtype=float)) for v in (high, low))
    method = f"Newcombe's interval over items, {percent(level)}"
    if not h.size or not other.size:
        return Estimate(math.nan, method=method)
    below = np.searchsorted(other, h, side="left")
    equal = np.searchsorted(other, h, side="right") - below
    value = float((below + equal / 2).sum()) / (h.size * other.size)
    z = z_quantile((1 + level) / 2)
    low, high = (_end(value, edge, z, (h.size, other.size)) for edge in (0.0, 1.0))
    n = int(h.size + other.size)
    return Estimate(value, low, high, n, method, recompute=partial(auroc, h, other))


def _end(value: float, edge: float, z: float, sizes: tuple[int, int]) -> float:
    """The θ between value and edge that lies exactly z of its standard errors away (bisection)."""
    if value == edge:
        return edge
    inside, outside = value, edge
    for _ in range(HALVINGS):
        middle = (inside + outside) / 2
        near = abs(middle - value) <= z * math.sqrt(_variance(middle, sizes))
        inside, outside = (middle, outside) if near else (inside, middle)
    return (inside + outside) / 2


def _variance(theta: float, sizes: tuple[int, int]) -> float:
    m, n = sizes
    more = (m + n) / 2 - 1
    shape = 1 + more * ((1 - theta) / (2 - theta) + theta / (1 + theta))
    return theta * (1 - theta) * shape / (m * n)


def _check_arrays(
    confidence: ArrayLike, right: ArrayLike | Sequence[bool]
) -> tuple[np.ndarray, np.ndarray]:
    p, hit = np.asarray(confidence, dtype=float), np.asarray(right, dtype=float)
    if p.shape != hit.shape or p.ndim != 1 or not p.size:
        raise ValueError(f"one confidence per item is needed: {p.shape} for {hit.shape}")
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("confidences must lie between 0 and 1")
    return p, hit
