"""q = beta (k_a + k_b) averages v_a and v_b once beta is large enough. How large?

Both weights are at least (1 - tol)/2 (so within tol/2 of one half, and 1 - tol together) iff

    F(beta) = sum over j != b of exp(scale beta (k_j - k_b).(k_a + k_b))  <=  (1 + tol)/(1 - tol)

with b the member of the lower score. F is convex, so the least beta is found or refuted exactly:

    orthonormal keys    beta = ln((n - 2)(1 - tol)/(2 tol)) / scale
    |k_a| != |k_b|      scores that differ by beta scale (|k_a|^2 - |k_b|^2) never give equal
                        weights, and the longer key takes over as beta grows
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.inputs import (
    Scale,
    attention_weights,
    check_index,
    check_keys,
    check_values,
    resolve_scale,
)
from attnlab.construct.result import Construction
from attnlab.construct.segment import log_sum_exp
from attnlab.core.errors import UsageError

Array = NDArray[np.float64]

_INSIDE = 1e-13  # of log F: the tolerance is passed, not touched
_NEAR = 1e-3  # of weight: how close to a limit that is not attained
_ROUNDING = 1e-14  # of a score difference, relative to the products it is made of


@dataclass(frozen=True, eq=False)
class _Pair:
    """F along the ray: `rates` are scale (k_j - k_low).(k_a + k_b) for every j but `low`."""

    keys: Array
    a: int
    b: int
    scale: float
    tolerance: float
    low: int
    rates: Array

    @property
    def ray(self) -> Array:
        """k_a + k_b."""
        return self.keys[self.a] + self.keys[self.b]

    @property
    def allowed(self) -> float:
        """log F may be no more than this."""
        return math.log1p(self.tolerance) - math.log1p(-self.tolerance)

    def log_sum(self, beta: float) -> float:
        """log F."""
        return log_sum_exp(beta * self.rates)

    def slope(self, beta: float) -> float:
        """d log F / d beta: the mean rate."""
        scores = beta * self.rates
        weights = np.exp(scores - scores.max())
        return float(weights @ self.rates / weights.sum())

    def weights(self, beta: float) -> Array:
        """Attention of beta (k_a + k_b)."""
        return attention_weights(self.keys, beta * self.ray, self.scale)


def average_scale(
    keys: Any,
    a: int,
    b: int,
    tolerance: float = 0.01,
    scale: Scale = 1.0,
    values: Any = None,
) -> Construction:
    """The least beta >= 0 for which q = beta (k_a + k_b) averages v_a and v_b.

    Averages: each of the two weights is at least (1 - tolerance)/2. Where no beta does, the best
    one comes back with `feasible` False. `also`: beta, the weights at beta = 1 (mostly no average),
    the limit for beta without end, and the closed form where the keys are orthonormal.
    """
    found = check_keys(keys)
    n, h = found.shape
    first, second = check_index(a, n), check_index(b, n)
    if first == second:
        raise UsageError(f"name two different keys to average: got {first} twice")
    pair = _rates(found, first, second, resolve_scale(scale, h), _share(tolerance))
    given = check_values(values, n)
    beta = _least(pair)
    if beta is not None:
        return _answer(pair, beta, given, None)
    best, attained = _best(pair)
    return _answer(pair, best, given, attained)


def _share(tolerance: Any) -> float:
    try:
        value = float(tolerance)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 < value < 1:
        raise UsageError(f"the tolerance lies strictly between 0 and 1: got {tolerance!r}")
    return value


def _rates(keys: Array, a: int, b: int, scale: float, tolerance: float) -> _Pair:
    """Differences of scores along the ray, those lost to rounding set to zero."""
    ray = keys[a] + keys[b]
    low = a if float((keys[a] - keys[b]) @ ray) < 0 else b
    gaps = keys - keys[low]
    rates = gaps @ ray
    size = np.abs(gaps) @ np.abs(ray) + np.abs(keys[low]) @ np.abs(ray)
    rates[np.abs(rates) <= _ROUNDING * size] = 0.0
    return _Pair(keys, a, b, scale, tolerance, low, scale * np.delete(rates, low))


def _least(pair: _Pair) -> float | None:
    """Newton from the left on a convex function: it never passes the root, and stops at a minimum.

    None where there is no root: F starts to rise, or falls to a limit that is too high.
    """
    goal = pair.allowed - _INSIDE
    if not (pair.rates > 0).any() and math.log(max(int((pair.rates == 0).sum()), 1)) >= goal:
        return 0.0 if pair.log_sum(0.0) <= pair.allowed else None
    beta = 0.0
    while (excess := pair.log_sum(beta) - goal) > 0:
        slope = pair.slope(beta)
        if slope >= 0:
            return 0.0 if beta == 0 and excess <= _INSIDE else None
        step = -excess / slope
        if beta + step == beta or excess < 1e-13:
            break
        beta += step
    return beta


def _best(pair: _Pair) -> tuple[float, bool]:
    """The beta of least F, or one within 1e-3 of a limit; and whether the best is attained."""
    if not (pair.rates < 0).any():
        return 0.0, True
    if not (pair.rates > 0).any():
        # The rest falls below exp(-beta slowest): so far that it has at most 1e-3 of the weight.
        slowest = float(-pair.rates[pair.rates < 0].max())
        return math.log(len(pair.rates) / _NEAR) / slowest, False
    from scipy.optimize import root_scalar

    if pair.slope(0.0) >= 0:
        return 0.0, True
    high = 1 / float(np.abs(pair.rates).max())
    while pair.slope(high) < 0:
        high *= 2
    return float(root_scalar(pair.slope, bracket=(0.0, high), xtol=1e-300, rtol=1e-13).root), True


def _answer(pair: _Pair, beta: float, values: Array | None, best: bool | None) -> Construction:
    """`best` is None where the tolerance is met, else whether the best beta is attained."""
    query, weights = beta * pair.ray, pair.weights(beta)
    members = [pair.a, pair.b]
    scores = pair.scale * ((pair.keys - pair.keys[pair.low]) @ query)
    rest = np.delete(scores, members)
    return Construction(
        feasible=best is None,
        why=_sentence(pair, beta, weights, best),
        query=query,
        weights=weights,
        output=None if values is None else weights @ values,
        attained=best is None or best,
        margin=float(scores[members].min() - rest.max()) if rest.size else None,
        norm=float(np.linalg.norm(query)),
        certificate=None if best is None else _certificate(pair, beta, best),
        residual=abs(pair.log_sum(beta) - pair.allowed) if best is None and beta > 0 else None,
        also=_also(pair, beta),
    )


def _certificate(pair: _Pair, beta: float, attained: bool) -> dict[str, Any]:
    """The least value of the convex F, against what is allowed."""
    least = pair.log_sum(beta) if attained else math.log(max(int((pair.rates == 0).sum()), 1))
    return {
        "kind": "convex-ray",
        "least_log_sum": least,
        "allowed_log_sum": pair.allowed,
        "largest_lower_weight": 1 / (1 + math.exp(least)),
        "needed_weight": (1 - pair.tolerance) / 2,
        "slope_there": pair.slope(beta),
    }


def _also(pair: _Pair, beta: float) -> dict[str, Any]:
    one = pair.weights(1.0)
    found: dict[str, Any] = {
        "beta": beta,
        "norms": [float(np.linalg.norm(pair.keys[i])) for i in (pair.a, pair.b)],
        "at_one": {
            "weights": one,
            "total": float(one[[pair.a, pair.b]].sum()),
            "averages": bool(one[[pair.a, pair.b]].min() >= (1 - pair.tolerance) / 2),
        },
        "limit_weights": _limit(pair),
    }
    form = closed_form(pair.keys, pair.tolerance, pair.scale)
    return found if form is None else {**found, "closed_form": form}


def closed_form(keys: Array, tolerance: float, scale: float) -> float | None:
    """ln((n - 2)(1 - tol)/(2 tol)) / scale, not below 0; None unless the keys are orthonormal."""
    n = len(keys)
    if np.abs(keys @ keys.T - np.eye(n)).max() > 1e-12 * n:
        return None
    rest = (n - 2) * (1 - tolerance) / (2 * tolerance)
    return math.log(rest) / scale if rest > 1 else 0.0


def _limit(pair: _Pair) -> Array:
    """Weights as beta grows without end: shared by the keys of the highest rate."""
    rates = np.insert(pair.rates, pair.low, 0.0)
    top = rates == rates.max()
    return top / top.sum()


def _sentence(pair: _Pair, beta: float, weights: Array, best: bool | None) -> str:
    pairs = f"{weights[pair.a]:.4g} and {weights[pair.b]:.4g}"
    names = f"keys {pair.a} and {pair.b}"
    if best is None:
        return f"beta = {beta:.4g} is the least that averages {names}: their weights are {pairs}."
    outside = np.setdiff1d(np.flatnonzero(_limit(pair)), [pair.a, pair.b])
    if outside.size:
        why = f"key {outside[0]} scores as high along this query, or higher"
    else:
        norms = [float(np.linalg.norm(pair.keys[i])) for i in (pair.a, pair.b)]
        why = f"their lengths differ ({norms[0]:.4g} and {norms[1]:.4g}), the longer takes over"
    if not pair.ray.any():
        why = "their sum is zero"
    return (
        f"No beta averages {names} within {pair.tolerance:g}: {why}. The best,"
        f" beta = {beta:.4g}, gives them {pairs}."
    )
