"""Replacing key i moves the attention along a segment: weights(w) = (1 - w) * others + w * e_i.

The other keys keep their scores, so their weights keep their ratios whatever the new key is. Only
the weight w = sigmoid(x) of the new key can be chosen, x = its score - log sum exp(other scores).
The output moves on the segment from the output of the others alone to v_i. Which x are possible:

    any key, q != 0      every x
    unit length          |score| <= scale * |q|; in one dimension only the two ends
    q = 0                one x, because all scores are 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnlab.construct.numerics import Array, Indices, log_sum_exp, sigmoid

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Segment:
    """Key `index` may be replaced; the query and all other keys (at least one) stay."""

    keys: Array
    query: Array
    index: int
    scale: float
    unit_norm: bool

    @cached_property
    def length(self) -> float:
        """The norm of the query."""
        return float(np.linalg.norm(self.query))

    @cached_property
    def direction(self) -> Array:
        """The query scaled to length one; zero where the query is zero."""
        return self.query / self.length if self.length > 0 else self.query

    @cached_property
    def other(self) -> Indices:
        """The indices of the keys that stay."""
        return np.delete(np.arange(len(self.keys), dtype=np.intp), self.index)

    @cached_property
    def origin(self) -> Array:
        """The key that scores are measured from: a common offset then costs no digits."""
        return self.keys[self.other[int(np.argmax(self.keys[self.other] @ self.query))]]

    @cached_property
    def scores(self) -> Array:
        """Scores of the keys that stay, relative to the highest of them."""
        return self.scale * ((self.keys[self.other] - self.origin) @ self.query)

    @cached_property
    def level(self) -> float:
        """log sum exp of these scores."""
        return log_sum_exp(self.scores)

    @cached_property
    def others(self) -> Array:
        """The weights of all keys if key i did not exist; 0 at i."""
        weights = np.zeros(len(self.keys))
        weights[self.other] = np.exp(self.scores - self.level)
        return weights

    def weights(self, x: float) -> Array:
        """The attention where the new key has logit x: (1 - w) * others + w * e_i."""
        weights = sigmoid(-x) * self.others
        weights[self.index] = sigmoid(x)
        return weights

    def x_of(self, key: Array) -> float:
        """The logit of the weight that this key would get."""
        return self.scale * float((key - self.origin) @ self.query) - self.level

    @cached_property
    def bound(self) -> float:
        """The largest score that a unit key can have: scale * |q|."""
        return self.scale * self.length

    @cached_property
    def base(self) -> float:
        """The score of a key with x = 0."""
        return self.level + self.scale * float(self.origin @ self.query)

    @cached_property
    def reach(self) -> tuple[Interval, ...]:
        """The intervals of x that a new key can have."""
        if self.length == 0:
            return ((-self.level, -self.level),)
        if not self.unit_norm:
            return ((-math.inf, math.inf),)
        low, high = -self.bound - self.base, self.bound - self.base
        return ((low, low), (high, high)) if self.keys.shape[1] == 1 else ((low, high),)

    @property
    def lowest(self) -> float:
        """The smallest x that a new key can have."""
        return self.reach[0][0]

    @property
    def highest(self) -> float:
        """The largest x that a new key can have."""
        return self.reach[-1][1]

    def nearest(self, wanted: Interval) -> float | None:
        """The possible x within `wanted` whose key is closest to the old one, or None."""
        slack = 1e-12 * (1 + abs(self.base) + abs(self.level))
        best: tuple[float, float] | None = None
        for low, high in self.reach:
            a, b = max(low, wanted[0]), min(high, wanted[1])
            if a > b + slack:
                continue
            x = min(max(self._closest, min(a, b)), max(a, b))
            x = min(max(x, low), high)
            if math.isfinite(x):
                distance = float(np.linalg.norm(self.key_at(x) - self.keys[self.index]))
                best = min(best, (distance, x)) if best else (distance, x)
        return best[1] if best else None

    @cached_property
    def _closest(self) -> float:
        """x of the closest key allowed: the old key, or the unit vector along it."""
        old = self.keys[self.index]
        if not self.unit_norm or self.length == 0:
            return self.x_of(old)
        size = float(np.linalg.norm(old))
        return self.bound * float(old @ self.direction) / size - self.base if size else -self.base

    def key_at(self, x: float) -> Array:
        """The key with logit x that is closest to the old one.

        Any length: k + (change of score) q / (scale |q|^2). Unit length: c q/|q| + sqrt(1 - c^2) u,
        with u the unit vector along the part of k that is orthogonal to q.
        """
        old = self.keys[self.index]
        if not self.unit_norm:
            if self.length == 0:
                return old.copy()
            key = old + (x - self.x_of(old)) / self.bound * self.direction
            return key + (x - self.x_of(key)) / self.bound * self.direction  # corrects rounding
        if self.length == 0:
            size = float(np.linalg.norm(old))
            return old / size if size else np.eye(old.size)[0]
        cosine = min(max((x + self.base) / self.bound, -1.0), 1.0)
        if old.size == 1:
            return math.copysign(1.0, cosine) * self.direction
        key = cosine * self.direction
        key = key + math.sqrt((1 - cosine) * (1 + cosine)) * orthogonal_unit(old, self.direction)
        return key / float(np.linalg.norm(key))


def orthogonal_unit(vector: Array, direction: Array) -> Array:
    """The unit vector along the part of `vector` that is orthogonal to `direction`.

    Where that part vanishes any orthogonal unit vector will do: it is made from a coordinate axis.
    """
    for start in (vector, np.eye(direction.size)[int(np.argmin(np.abs(direction)))]):
        part = start - (start @ direction) * direction
        part = part - (part @ direction) * direction
        size = float(np.linalg.norm(part))
        if size > 1e-13 * float(np.linalg.norm(start)):
            return part / size
    raise ValueError("in one dimension no vector is orthogonal to the direction")
