"""Equal weight on a set S of keys, w in total: the problem behind select (one key) and average.

A query gives every key of S the same score iff it is orthogonal to their differences. With N a
basis of that orthogonal complement and d_i = scale N^T (k_i - k_S) for the other keys,

    total = |S| / (|S| + e^f),    f(y) = log sum_i exp(d_i . y),    q = N y,

so the total reaches w iff f(y) <= log|S| + log(1/w - 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnlab.construct.hull import Infimum
from attnlab.construct.inputs import AttentionInputs
from attnlab.construct.min_norm import MinNormResult, min_norm_query
from attnlab.construct.numerics import EPS, Array
from attnlab.construct.span import basis_and_condition

_BELOW_SUPREMUM = 1e-3  # how close a query comes to a supremum that no query attains
_NUDGES = 8  # together 6e-14 of the length; a weight then shows as 1 - eps at worst


@dataclass(frozen=True, eq=False)
class EqualWeightProblem:
    """The rows d_i of the keys outside S, and the matrix N that lifts a solution y to a query."""

    inputs: AttentionInputs
    members: list[int]
    rest: list[int]
    rows: Array
    lift: Array
    rounding: float = EPS  # relative error of a row

    @property
    def keys(self) -> Array:
        """All keys, those of S and the others."""
        return self.inputs.keys

    @property
    def count(self) -> int:
        """The number of keys in S."""
        return len(self.members)

    def level(self, weight: float) -> float:
        """The value of f at which the total on S equals `weight`."""
        return math.log(self.count) + math.log1p(-weight) - math.log(weight)

    def total(self, f: float) -> float:
        """The total weight on S at a value of f: the inverse of `level`."""
        return 1 / (1 + math.exp(min(f - math.log(self.count), 700.0)))

    def below(self, supremum: float) -> float:
        """A weight within 1e-3 of a supremum that queries approach but never attain."""
        near = supremum - _BELOW_SUPREMUM
        return near if supremum > 2 * _BELOW_SUPREMUM else supremum / 2

    def min_norm(self, weight: float) -> MinNormResult:
        """The shortest y whose total on S reaches `weight`, or the proof that none does."""
        return min_norm_query(self.rows, self.level(weight), self.rounding)

    def query_near_supremum(self, infimum: Infimum) -> Array:
        """The shortest query within 1e-3 of the largest total, where that is not attained."""
        return self.lift @ self.min_norm(self.below(self.total(infimum.value))).query

    def lift_query(self, weight: float, result: MinNormResult) -> Array:
        """The query q = N y, lengthened until its weights reach `weight` in floating point."""
        query = self.lift @ result.query
        for nudge in range(_NUDGES):
            if self.inputs.weights(query)[self.members].sum() >= weight:
                break
            query = query * (1 + 2.0 ** (nudge - 52))
        return query

    def margin(self, query: Array) -> float | None:
        """By how much the score of S exceeds the highest other score; None without other keys."""
        if not self.rest:
            return None
        gaps = self.keys[self.rest] - self.keys[self.members[0]]
        return 0.0 - self.inputs.scale * float((gaps @ query).max())


def equal_weight_problem(inputs: AttentionInputs, members: list[int]) -> EqualWeightProblem:
    """Project the other keys on the directions in which all `members` have the same score."""
    keys, chosen = inputs.keys, set(members)
    rest = [i for i in range(len(keys)) if i not in chosen]
    first = keys[members[0]]
    rows = inputs.scale * (keys[rest] - first)
    lift = np.eye(keys.shape[1])
    if len(members) == 1:
        return EqualWeightProblem(inputs, members, rest, rows, lift)
    within, condition = basis_and_condition(keys[members[1:]] - first)
    lift = np.linalg.svd(within, full_matrices=True)[0][:, within.shape[1] :]
    # A projection rounds relative to the row that it starts from: what is that small is rounding.
    error = 8 * keys.shape[1] * EPS * condition * np.linalg.norm(rows, axis=1)
    rows = rows @ lift
    size = np.linalg.norm(rows, axis=1)
    rows[size <= error] = 0.0
    rounding = float((error[size > error] / size[size > error]).max(initial=EPS))
    return EqualWeightProblem(inputs, members, rest, rows, lift, rounding)
