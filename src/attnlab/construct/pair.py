"""How large must beta be for q = beta (k_a + k_b) to average v_a and v_b?

Both weights are at least (1 - tol)/2 (so within tol/2 of one half, and 1 - tol together) iff

    F(beta) = sum over j != b of exp(scale beta (k_j - k_b).(k_a + k_b))  <=  (1 + tol)/(1 - tol)

with b the key of the lower score. F is convex, so the smallest beta is found or ruled out exactly:

    orthonormal keys    beta = ln((n - 2)(1 - tol)/(2 tol)) / scale
    |k_a| != |k_b|      scores that differ by beta scale (|k_a|^2 - |k_b|^2) never give equal
                        weights, and the longer key takes all the weight as beta grows
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.construct.inputs import AttentionInputs, Scale, check_pair, check_weight
from attnlab.construct.numerics import Array, log_sum_exp, norm
from attnlab.construct.result import Construction

_INSIDE = 1e-13  # log F stays below its limit by this much
_NEAR = 1e-3  # weight by which the best query falls short of a limit that is not attained
_ROUNDING = 1e-14  # of a score difference, relative to the products that it is made of


@dataclass(frozen=True, eq=False)
class _Ray:
    """F along the ray: `rates` are scale (k_j - k_low).(k_a + k_b) for every j but `low`."""

    inputs: AttentionInputs
    members: list[int]
    tolerance: float
    low: int
    rates: Array

    @property
    def direction(self) -> Array:
        """k_a + k_b, the query at beta = 1."""
        first, second = self.members
        return self.inputs.keys[first] + self.inputs.keys[second]

    @property
    def allowed(self) -> float:
        """The largest log F at which both weights are within the tolerance."""
        return math.log1p(self.tolerance) - math.log1p(-self.tolerance)

    @property
    def limit_log_sum(self) -> float:
        """The limit of log F for beta -> infinity where no rate is positive."""
        return math.log(max(int((self.rates == 0).sum()), 1))

    @property
    def norms(self) -> list[float]:
        """The lengths of the two keys."""
        return [norm(self.inputs.keys[i]) for i in self.members]

    def log_sum(self, beta: float) -> float:
        """log F(beta)."""
        return log_sum_exp(beta * self.rates)

    def slope(self, beta: float) -> float:
        """d log F / d beta: the mean rate under the weights at beta."""
        scores = beta * self.rates
        weights = np.exp(scores - scores.max())
        return float(weights @ self.rates / weights.sum())

    def weights(self, beta: float) -> Array:
        """Attention of the query beta (k_a + k_b)."""
        return self.inputs.weights(beta * self.direction)


def average_scale(
    keys: Any, a: int, b: int, tolerance: float = 0.01, scale: Scale = 1.0, values: Any = None
) -> Construction:
    """The smallest beta >= 0 for which q = beta (k_a + k_b) averages v_a and v_b.

    It averages them when both weights are at least (1 - tolerance)/2. Where no beta does, the
    best one is returned with `feasible` False. `also` holds beta, the weights at beta = 1 (mostly
    no average), the limit for beta -> infinity, and the closed form if the keys are orthonormal.
    """
    inputs = AttentionInputs.check(keys, scale, values)
    first, second = check_pair((a, b), len(inputs.keys))
    ray = _score_rates(inputs, first, second, check_weight(tolerance, "the tolerance"))
    beta, attained = _smallest_beta(ray), None
    if beta is None:
        beta, attained = _best_beta(ray)
    return _describe(ray, beta, attained)


def _score_rates(inputs: AttentionInputs, a: int, b: int, tolerance: float) -> _Ray:
    """Differences of scores along the ray, with those lost to rounding set to zero."""
    keys = inputs.keys
    direction = keys[a] + keys[b]
    low = a if float((keys[a] - keys[b]) @ direction) < 0 else b
    gaps = keys - keys[low]
    rates = gaps @ direction
    size = np.abs(gaps) @ np.abs(direction) + np.abs(keys[low]) @ np.abs(direction)
    rates[np.abs(rates) <= _ROUNDING * size] = 0.0
    return _Ray(inputs, [a, b], tolerance, low, inputs.scale * np.delete(rates, low))


def _smallest_beta(ray: _Ray) -> float | None:
    """Newton from the left on a convex function, which never passes the root.

    None where there is no root: F starts to increase, or decreases to a limit that is too high.
    """
    target = ray.allowed - _INSIDE
    if not (ray.rates > 0).any() and ray.limit_log_sum >= target:
        return 0.0 if ray.log_sum(0.0) <= ray.allowed else None
    beta = 0.0
    while (excess := ray.log_sum(beta) - target) > 0:
        slope = ray.slope(beta)
        if slope >= 0:
            return 0.0 if beta == 0 and excess <= _INSIDE else None
        step = -excess / slope
        if beta + step == beta or excess < 1e-13:
            break
        beta += step
    return beta


def _best_beta(ray: _Ray) -> tuple[float, bool]:
    """The beta of smallest F or, where F only approaches a limit, one within 1e-3 of it (False)."""
    if not (ray.rates < 0).any():
        return 0.0, True
    if not (ray.rates > 0).any():
        # The other keys fall below exp(-beta slowest): to at most 1e-3 of the weight.
        slowest = float(-ray.rates[ray.rates < 0].max())
        return math.log(len(ray.rates) / _NEAR) / slowest, False
    from scipy.optimize import root_scalar

    if ray.slope(0.0) >= 0:
        return 0.0, True
    high = 1 / float(np.abs(ray.rates).max())
    while ray.slope(high) < 0:
        high *= 2
    return float(root_scalar(ray.slope, bracket=(0.0, high), xtol=1e-300, rtol=1e-13).root), True


def _describe(ray: _Ray, beta: float, attained: bool | None) -> Construction:
    """`attained` is None where the tolerance is met, else whether the best beta is attained."""
    query = beta * ray.direction
    keys = ray.inputs.keys
    scores = ray.inputs.scale * ((keys - keys[ray.low]) @ query)
    others = np.delete(scores, ray.members)
    feasible = attained is None
    return Construction.of_query(
        ray.inputs,
        query,
        feasible=feasible,
        why=_explain(ray, beta, feasible),
        attained=feasible or attained,
        margin=float(scores[ray.members].min() - others.max()) if others.size else None,
        certificate=None if attained is None else _certificate(ray, beta, attained),
        residual=abs(ray.log_sum(beta) - ray.allowed) if feasible and beta > 0 else None,
        also=_report(ray, beta),
    )


def _certificate(ray: _Ray, beta: float, attained: bool) -> dict[str, Any]:
    """The smallest value of the convex F, against the largest that is allowed."""
    least = ray.log_sum(beta) if attained else ray.limit_log_sum
    return {
        "kind": "convex-ray",
        "least_log_sum": least,
        "allowed_log_sum": ray.allowed,
        "largest_lower_weight": 1 / (1 + math.exp(least)),
        "needed_weight": (1 - ray.tolerance) / 2,
        "slope_there": ray.slope(beta),
    }


def _report(ray: _Ray, beta: float) -> dict[str, Any]:
    weights = ray.weights(1.0)
    pair = weights[ray.members]
    report: dict[str, Any] = {
        "beta": beta,
        "norms": ray.norms,
        "at_one": {
            "weights": weights,
            "total": float(pair.sum()),
            "averages": bool(pair.min() >= (1 - ray.tolerance) / 2),
        },
        "limit_weights": _limit_weights(ray),
    }
    beta_formula = closed_form(ray.inputs.keys, ray.tolerance, ray.inputs.scale)
    return report if beta_formula is None else {**report, "closed_form": beta_formula}


def closed_form(keys: Array, tolerance: float, scale: float) -> float | None:
    """ln((n - 2)(1 - tol)/(2 tol)) / scale, at least 0; None unless the keys are orthonormal."""
    n = len(keys)
    if np.abs(keys @ keys.T - np.eye(n)).max() > 1e-12 * n:
        return None
    rest = (n - 2) * (1 - tolerance) / (2 * tolerance)
    return math.log(rest) / scale if rest > 1 else 0.0


def _limit_weights(ray: _Ray) -> Array:
    """The weights for beta -> infinity, shared equally by the keys of the highest rate."""
    rates = np.insert(ray.rates, ray.low, 0.0)
    top = rates == rates.max()
    return top / top.sum()


def _explain(ray: _Ray, beta: float, feasible: bool) -> str:
    weights = ray.weights(beta)[ray.members]
    pair = f"{weights[0]:.4g} and {weights[1]:.4g}"
    names = f"keys {ray.members[0]} and {ray.members[1]}"
    if feasible:
        return f"beta = {beta:.4g} is the smallest that averages {names}: their weights are {pair}."
    outside = np.setdiff1d(np.flatnonzero(_limit_weights(ray)), ray.members)
    if not ray.direction.any():
        reason = "their sum is zero"
    elif outside.size:
        reason = f"key {outside[0]} scores at least as high along this query"
    else:
        first, second = ray.norms
        reason = f"their lengths differ ({first:.4g} and {second:.4g}), the longer takes over"
    return (
        f"No beta averages {names} within {ray.tolerance:g}: {reason}. The best,"
        f" beta = {beta:.4g}, gives them {pair}."
    )
