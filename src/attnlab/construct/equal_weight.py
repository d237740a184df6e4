"""Equal weight on some keys S, w in total: one problem for select (one key) and average (several).

A query gives all of S one score iff it is orthogonal to their differences. Then, with N a basis of
that complement and d_i = scale N^T (k_i - k_S) for the other keys,

    total = |S| / (|S| + e^f),    f(y) = log sum_i exp(d_i . y),    q = N y,

and the total reaches w iff f(y) <= log|S| + log(1/w - 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnlab.construct.log_sum_exp import EPS, Array
from attnlab.construct.span import basis_and_condition

_SHY = 1e-3  # how near to a supremum that is not attained a query is brought


@dataclass(frozen=True, eq=False)
class EqualWeightProblem:
    """Keys, the wanted ones, the scale; rows d_i of the others, and the way back to a query."""

    keys: Array
    members: list[int]
    rest: list[int]
    scale: float
    rows: Array
    lift: Array
    rounding: float = EPS  # relative error of a row

    @property
    def count(self) -> int:
        """|S|."""
        return len(self.members)

    def level(self, weight: float) -> float:
        """log|S| + log(1/w - 1)."""
        return math.log(self.count) + math.log1p(-weight) - math.log(weight)

    def share(self, f: float) -> float:
        """|S| / (|S| + e^f)."""
        return 1 / (1 + math.exp(min(f - math.log(self.count), 700.0)))

    def below(self, best: float) -> float:
        """A weight within 1e-3 of a supremum that is only approached."""
        return best - _SHY if best > 2 * _SHY else best / 2


def equal_weight_problem(keys: Array, members: list[int], scale: float) -> EqualWeightProblem:
    """The problem of giving `members` equal weights."""
    wanted = set(members)
    rest = [i for i in range(len(keys)) if i not in wanted]
    first = keys[members[0]]
    rows = scale * (keys[rest] - first)
    lift = np.eye(keys.shape[1])
    if len(members) == 1:
        return EqualWeightProblem(keys, members, rest, scale, rows, lift)
    within, condition = basis_and_condition(keys[members[1:]] - first)
    lift = np.linalg.svd(within, full_matrices=True)[0][:, within.shape[1] :]
    # A projection rounds relative to the row it starts from: what is that small is rounding.
    error = 8 * keys.shape[1] * EPS * condition * np.linalg.norm(rows, axis=1)
    rows = rows @ lift
    size = np.linalg.norm(rows, axis=1)
    rows[size <= error] = 0.0
    rounding = float((error[size > error] / size[size > error]).max(initial=EPS))
    return EqualWeightProblem(keys, members, rest, scale, rows, lift, rounding)
