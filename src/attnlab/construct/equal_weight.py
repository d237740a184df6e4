"""Equal weight on a set S of keys, w in total: the problem behind select (one key) and average.

A query gives every key of S the same score iff it is orthogonal to their differences. With N a
basis of that orthogonal complement and d_i = scale N^T (k_i - k_S) for the other keys,

    total = |S| / (|S| + e^f),    f(y) = log sum_i exp(d_i . y),    q = N y,

so the total reaches w iff f(y) <= t = log|S| + log(1/w - 1).

The certificates are lambda over the other keys and, for several members, a over S. With
v = sum lambda_i k_i - sum a_s k_s (both sum to one), every query with equal scores on S that
reaches w satisfies  H(lambda) - t <= scale ||q|| ||v||.  So it is no shorter than
(H - t) / (scale ||v||), and where v = 0 and H > t no such query exists.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from attnlab.construct.exact import (
    SMALL,
    entropy_bounds,
    exact_combination,
    norm_upper_bound,
    to_fractions,
    weight_upper_bound,
)
from attnlab.construct.hull import Infimum
from attnlab.construct.inputs import AttentionInputs
from attnlab.construct.min_norm import MinNormResult, min_norm_query
from attnlab.construct.numerics import (
    EPS,
    Array,
    basis_and_condition,
    entropy,
    norm,
    normalise_rows,
    softmax,
)

_BELOW_SUPREMUM = 1e-3  # how close a query comes to a supremum that no query attains
_NUDGES = 8  # together 6e-14 of the length; a weight then shows as 1 - eps at worst
_SAME = 1e-9  # entropies, or bounds, that agree to this count as equal


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
    within, condition = basis_and_condition(normalise_rows(keys[members[1:]] - first)[1])
    lift = np.linalg.svd(within, full_matrices=True)[0][:, within.shape[1] :]
    # A projection rounds relative to the row that it starts from: what is that small is rounding.
    error = 8 * keys.shape[1] * EPS * condition * np.linalg.norm(rows, axis=1)
    rows = rows @ lift
    size = np.linalg.norm(rows, axis=1)
    rows[size <= error] = 0.0
    rounding = float((error[size > error] / size[size > error]).max(initial=EPS))
    return EqualWeightProblem(inputs, members, rest, rows, lift, rounding)


def norm_certificate(
    problem: EqualWeightProblem, level: float, result: MinNormResult
) -> dict[str, Any]:
    """A lower bound on the norm, with lambda = softmax of the other keys' scores."""
    if result.norm == 0:
        return {"kind": "zero", "norm_bound": 0.0, "checked": "exact"}
    lam = softmax(problem.rows @ result.query)
    a = member_coefficients(problem, lam)
    bound, checked = result.bound, "float"
    exact = _exact_bound(problem, level, lam, a) if problem.keys.size <= SMALL else 0.0
    if exact >= (1 - _SAME) * bound:
        bound, checked = exact, "exact"
    certificate = {"kind": "shortest", "lambda": _over_keys(problem, lam), "entropy": entropy(lam)}
    if problem.count > 1:
        certificate["members"] = a
    return {**certificate, "norm_bound": bound, "checked": checked}


def hull_certificate(
    problem: EqualWeightProblem, result: MinNormResult, level: float | None
) -> dict[str, Any]:
    """A point sum lambda_i k_i = sum a_s k_s, which bounds the weight that S can have.

    Keys that rounding has moved off a line or plane may allow only an exact combination far from
    the best one; then the certificate gives the exact bound next to the floating-point value.
    """
    infimum = result.infimum
    assert infimum is not None
    if infimum.kind == "outside":  # a query exists, but it is too long for doubles
        direction = None if infimum.direction is None else problem.lift @ infimum.direction
        certificate = {"kind": "separation", "direction": direction}
        return {**certificate, "best_weight": 1.0, "checked": "float"}
    certificate = _float_hull(problem, infimum)
    if level is not None:
        certificate["norm_bound"] = result.bound
    if problem.keys.size > SMALL:
        return certificate
    members = problem.keys[problem.members]
    exact = exact_combination(problem.keys[problem.rest], members, infimum.weights)
    if exact is None:
        return certificate
    proof = _exact_hull(problem, *exact)
    if proof["entropy"] < certificate["entropy"] - _SAME * (1 + certificate["entropy"]):
        return {**certificate, "exact_best_weight": proof["best_weight"]}
    return proof


def _float_hull(problem: EqualWeightProblem, infimum: Infimum) -> dict[str, Any]:
    lam, h = infimum.weights, entropy(infimum.weights)
    a = member_coefficients(problem, lam)
    gap = lam @ problem.keys[problem.rest] - a @ problem.keys[problem.members]
    return {
        "kind": "hull",
        "lambda": _over_keys(problem, lam),
        "entropy": h,
        # |dH| <= sum |d lambda_i| (1 + |log lambda_i|) when each lambda_i changes by that share.
        "entropy_error": infimum.change * (1 + h) + (len(lam) + 4) * EPS * (1 + h),
        "best_weight": problem.total(h),
        "residual": norm(gap),
        "checked": "float",
        **({"members": a} if problem.count > 1 else {}),
    }


def _exact_hull(
    problem: EqualWeightProblem, lam: list[Fraction], a: list[Fraction]
) -> dict[str, Any]:
    low, high = entropy_bounds(lam)
    return {
        "kind": "hull",
        "lambda": _over_keys(problem, np.array(lam, np.float64)),
        "entropy": low,
        "entropy_error": high - low,
        "best_weight": weight_upper_bound(problem.count, low),
        "residual": 0.0,
        "checked": "exact",
        **({"members": np.array(a, np.float64)} if problem.count > 1 else {}),
    }


def _exact_bound(problem: EqualWeightProblem, level: float, lam: Array, a: Array) -> float:
    """(H(lambda) - t) / (scale ||v||), lambda and a normalised to sum one in exact arithmetic."""
    weights, free = (np.array(to_fractions(part)) for part in (lam, a))
    weights, free = weights / weights.sum(), free / free.sum()
    keys = np.array([to_fractions(key) for key in problem.keys])
    v = weights @ keys[problem.rest] - free @ keys[problem.members]
    size = norm_upper_bound(v) * problem.inputs.scale * (1 + 4 * EPS)
    excess = entropy_bounds(weights)[0] - level - 8 * EPS * (1 + abs(level))
    return max(excess, 0.0) / size * (1 - 4 * EPS) if size else math.inf


def member_coefficients(problem: EqualWeightProblem, lam: Array) -> Array:
    """The a with sum one for which sum a_s k_s is closest to sum lambda_i k_i."""
    if problem.count == 1:
        return np.ones(1)
    first = problem.keys[problem.members[0]]
    differences = problem.keys[problem.members[1:]] - first
    target = lam @ (problem.keys[problem.rest] - first)
    free = np.linalg.lstsq(differences.T, target, rcond=None)[0]
    return np.concatenate([[1 - free.sum()], free])


def _over_keys(problem: EqualWeightProblem, lam: Array) -> Array:
    """lambda as a vector over all keys, zero on the members."""
    weights = np.zeros(len(problem.keys))
    weights[problem.rest] = lam
    return weights
