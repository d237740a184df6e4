"""Replacing key i moves attention along one segment: weights(w) = (1 - w) * others + w * e_i.

The other keys keep their scores, so their weights keep their ratios whatever the new key is:
only its own weight w = sigmoid(x) can be chosen, x = score of the new key - log sum exp(others).
The output moves on the segment from what the others say to v_i. Which x can be reached:

    any key, q != 0      every x
    unit length          |score| <= scale * |q|; in one dimension only the two ends
    q = 0                one x: all scores are 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[float, float]


def log_sum_exp(scores: Array) -> float:
    """log sum exp, without overflow."""
    top = float(scores.max())
    return top + math.log(float(np.exp(scores - top).sum()))


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), right at both ends."""
    if x >= 0:
        return 1 / (1 + math.exp(-x)) if x < 700 else 1.0
    return math.exp(x) / (1 + math.exp(x))  # underflows to 0, never overflows


def logit(weight: float, rest: float) -> float:
    """log(weight / rest), rest = 1 - weight given apart so that neither is lost to rounding."""
    if weight <= 0:
        return -math.inf
    return math.log(weight) - math.log(rest) if rest > 0 else math.inf


@dataclass(frozen=True, eq=False)
class Segment:
    """One key of at least two is free; the query and all other keys stay."""

    keys: Array
    query: Array
    index: int
    scale: float
    unit_norm: bool

    @cached_property
    def length(self) -> float:
        """|q|."""
        return float(np.linalg.norm(self.query))

    @cached_property
    def direction(self) -> Array:
        """q / |q|."""
        return self.query / self.length if self.length > 0 else self.query

    @cached_property
    def other(self) -> NDArray[np.intp]:
        """The indices of the keys that stay."""
        return np.delete(np.arange(len(self.keys), dtype=np.intp), self.index)

    @cached_property
    def origin(self) -> Array:
        """The key scores are counted from: a shared offset of all keys is then no loss."""
        return self.keys[self.other[int(np.argmax(self.keys[self.other] @ self.query))]]

    @cached_property
    def scores(self) -> Array:
        """Scores of the keys that stay, the highest 0."""
        return self.scale * ((self.keys[self.other] - self.origin) @ self.query)

    @cached_property
    def level(self) -> float:
        """log sum exp of them."""
        return log_sum_exp(self.scores)

    @cached_property
    def others(self) -> Array:
        """Weights of all keys if key i were not there; 0 at i."""
        weights = np.zeros(len(self.keys))
        weights[self.other] = np.exp(self.scores - self.level)
        return weights

    def weights(self, x: float) -> Array:
        """(1 - w) * others + w * e_i."""
        found = sigmoid(-x) * self.others
        found[self.index] = sigmoid(x)
        return found

    def x_of(self, key: Array) -> float:
        """Where this key stands."""
        return self.scale * float((key - self.origin) @ self.query) - self.level

    @cached_property
    def bound(self) -> float:
        """The largest score of a unit key: scale * |q|."""
        return self.scale * self.length

    @cached_property
    def base(self) -> float:
        """The score that x = 0 stands for."""
        return self.level + self.scale * float(self.origin @ self.query)

    @cached_property
    def reach(self) -> tuple[Interval, ...]:
        """Every x that a key can have."""
        if self.length == 0:
            return ((-self.level, -self.level),)
        if not self.unit_norm:
            return ((-math.inf, math.inf),)
        low, high = -self.bound - self.base, self.bound - self.base
        return ((low, low), (high, high)) if self.keys.shape[1] == 1 else ((low, high),)

    @property
    def lowest(self) -> float:
        """The least x."""
        return self.reach[0][0]

    @property
    def highest(self) -> float:
        """The greatest x."""
        return self.reach[-1][1]

    def nearest(self, wanted: Interval) -> float | None:
        """The reachable x within `wanted` whose key is nearest to the old one; None if none is."""
        slack = 1e-12 * (1 + abs(self.base) + abs(self.level))
        best: tuple[float, float] | None = None
        for low, high in self.reach:
            a, b = max(low, wanted[0]), min(high, wanted[1])
            if a > b + slack:
                continue
            x = min(max(self._easiest, min(a, b)), max(a, b))
            x = min(max(x, low), high)
            if math.isfinite(x):
                far = float(np.linalg.norm(self.key_at(x) - self.keys[self.index]))
                best = min(best, (far, x)) if best else (far, x)
        return best[1] if best else None

    @cached_property
    def _easiest(self) -> float:
        """x of the nearest key allowed: the old one, or the unit vector along it."""
        old = self.keys[self.index]
        if not self.unit_norm or self.length == 0:
            return self.x_of(old)
        size = float(np.linalg.norm(old))
        return self.bound * float(old @ self.direction) / size - self.base if size else -self.base

    def key_at(self, x: float) -> Array:
        """The key of score x that is nearest to the old one.

        Any length: k + (change of score) q / (scale |q|^2). Unit length: c q/|q| + sqrt(1 - c^2) u,
        u the part of k across q; the distance is convex in c, so the nearest c is the right one.
        """
        old = self.keys[self.index]
        if not self.unit_norm:
            if self.length == 0:
                return old.copy()
            key = old + (x - self.x_of(old)) / self.bound * self.direction
            return key + (x - self.x_of(key)) / self.bound * self.direction  # rounding, once more
        if self.length == 0:
            size = float(np.linalg.norm(old))
            return old / size if size else np.eye(old.size)[0]
        cosine = min(max((x + self.base) / self.bound, -1.0), 1.0)
        if old.size == 1:
            return math.copysign(1.0, cosine) * self.direction
        key = cosine * self.direction
        key = key + math.sqrt((1 - cosine) * (1 + cosine)) * across(old, self.direction)
        return key / float(np.linalg.norm(key))


def across(vector: Array, direction: Array) -> Array:
    """The unit vector along the part of `vector` at right angles to `direction`.

    Where there is no such part every unit vector at right angles will do: an axis is used.
    """
    for start in (vector, np.eye(direction.size)[int(np.argmin(np.abs(direction)))]):
        part = start - (start @ direction) * direction
        part = part - (part @ direction) * direction
        size = float(np.linalg.norm(part))
        if size > 1e-13 * float(np.linalg.norm(start)):
            return part / size
    raise ValueError("in one dimension nothing is at right angles")
