"""What proves an answer, as plain values: lambda over the other keys and, for several members, a.

With v = sum lambda_i k_i - sum a_s k_s (both of sum one) and t = log|S| + log(1/w - 1), every query
with equal scores on S that reaches w satisfies  H(lambda) - t <= scale ||q|| ||v||.  So it is no
shorter than (H - t) / (scale ||v||), and where v = 0 and H > t there is none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnlab.construct.entropy import entropy
from attnlab.construct.equal_weight import EqualWeightProblem
from attnlab.construct.exact import (
    SMALL,
    Combination,
    Fraction,
    entropy_bounds,
    exact_combination,
    norm_upper_bound,
    weight_upper_bound,
)
from attnlab.construct.hull import Infimum
from attnlab.construct.log_sum_exp import EPS, Array
from attnlab.construct.min_norm import MinNormResult

_SAME = 1e-9  # entropies, or bounds, that agree to this are one


def norm_certificate(
    aim: EqualWeightProblem, level: float, outcome: MinNormResult
) -> dict[str, Any]:
    """No shorter query: the bound, with lambda = softmax of the other keys' scores."""
    if outcome.norm == 0:
        return {"kind": "zero", "norm_bound": 0.0, "checked": "exact"}
    lam = _softmax(aim.rows @ outcome.query)
    a = member_coefficients(aim, lam)
    bound, checked = outcome.bound, "float"
    exact = _exact_bound(aim, level, lam, a) if aim.keys.size <= SMALL else 0.0
    if exact >= (1 - _SAME) * bound:
        bound, checked = exact, "exact"
    found = {"kind": "shortest", "lambda": _over_keys(aim, lam), "entropy": entropy(lam)}
    if aim.count > 1:
        found["members"] = a
    return {**found, "norm_bound": bound, "checked": checked}


def hull_certificate(
    aim: EqualWeightProblem, outcome: MinNormResult, level: float | None
) -> dict[str, Any]:
    """sum lambda_i k_i is one of the wanted keys' own combinations: the best weight there is.

    Keys that rounding has moved off a line or plane may allow an exact combination far from the
    best one; then the exact bound stands beside the value that floating point gives.
    """
    low = outcome.infimum
    assert low is not None
    if low.kind == "outside":  # a query exists, too long for doubles
        away = None if low.direction is None else aim.lift @ low.direction
        return {"kind": "separation", "direction": away, "best_weight": 1.0, "checked": "float"}
    found = _float_hull(aim, low)
    if level is not None:
        found["norm_bound"] = outcome.bound
    if aim.keys.size > SMALL:
        return found
    exact = exact_combination(aim.keys[aim.rest], aim.keys[aim.members], low.weights)
    if exact is None:
        return found
    proof = _exact_hull(aim, exact)
    if proof["entropy"] < found["entropy"] - _SAME * (1 + found["entropy"]):
        return {**found, "exact_best_weight": proof["best_weight"]}
    return proof


def _float_hull(aim: EqualWeightProblem, low: Infimum) -> dict[str, Any]:
    lam, h = low.weights, entropy(low.weights)
    a = member_coefficients(aim, lam)
    # |dH| <= sum |d lambda_i| (1 + |log lambda_i|) when each lambda_i changes by that share.
    error = low.change * (1 + h) + (len(lam) + 4) * EPS * (1 + h)
    found = {
        "kind": "hull",
        "lambda": _over_keys(aim, lam),
        "entropy": h,
        "entropy_error": error,
        "best_weight": aim.share(h),
        "residual": float(np.linalg.norm(lam @ aim.keys[aim.rest] - a @ aim.keys[aim.members])),
        "checked": "float",
    }
    return {**found, **({"members": a} if aim.count > 1 else {})}


def _exact_hull(aim: EqualWeightProblem, exact: Combination) -> dict[str, Any]:
    low, high = entropy_bounds(exact.rest)
    lam = np.array([float(x) for x in exact.rest])
    found = {
        "kind": "hull",
        "lambda": _over_keys(aim, lam),
        "entropy": low,
        "entropy_error": high - low,
        "best_weight": weight_upper_bound(aim.count, low),
        "residual": 0.0,
        "checked": "exact",
    }
    members = np.array([float(x) for x in exact.members])
    return {**found, **({"members": members} if aim.count > 1 else {})}


def _exact_bound(aim: EqualWeightProblem, level: float, lam: Array, a: Array) -> float:
    """(H(lambda) - t) / (scale ||v||), lambda and a brought to sum one in fractions."""
    weights, free = ([Fraction(float(x)) for x in part] for part in (lam, a))
    total, sum_a = sum(weights, Fraction(0)), sum(free, Fraction(0))
    weights, free = [x / total for x in weights], [x / sum_a for x in free]
    v = [
        _dot(weights, aim.keys[aim.rest, c]) - _dot(free, aim.keys[aim.members, c])
        for c in range(aim.keys.shape[1])
    ]
    size = norm_upper_bound(v) * aim.scale * (1 + 4 * EPS)
    lead = entropy_bounds(weights)[0] - level - 8 * EPS * (1 + abs(level))
    return max(lead, 0.0) / size * (1 - 4 * EPS) if size else math.inf


def _dot(weights: list[Fraction], column: Array) -> Fraction:
    return sum((w * Fraction(float(x)) for w, x in zip(weights, column, strict=True)), Fraction(0))


def _softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def member_coefficients(aim: EqualWeightProblem, lam: Array) -> Array:
    """a with sum one that brings sum a_s k_s nearest to sum lambda_i k_i."""
    if aim.count == 1:
        return np.ones(1)
    first = aim.keys[aim.members[0]]
    across = aim.keys[aim.members[1:]] - first
    goal = lam @ (aim.keys[aim.rest] - first)
    found = np.linalg.lstsq(across.T, goal, rcond=None)[0]
    return np.concatenate([[1 - found.sum()], found])


def _over_keys(aim: EqualWeightProblem, lam: Array) -> Array:
    """lambda at the places of the keys, zero on the members."""
    found = np.zeros(len(aim.keys))
    found[aim.rest] = lam
    return found
