"""The law of the output at every point of a line: moments by quadrature, P(off), the limit β → ∞.

limit   two heads of infinite β return the keys of the largest score. Head 1 returns a with
        P₁ = E Φ((1 − √α M)/√(α + spread)), M the largest of n − 1 standard normals; head 2 returns
        b with P₂, the same with spread 0. Off unless a and b are returned, once each:
        1 − P₁P₂ − (1 − P₁)(1 − P₂)/(n − 1)²
"""

import math
from typing import Any

import numpy as np

from attnlab.construct.robustness import (
    HeadComparison,
    Robustness,
    compare_heads,
    noisy_covariances,
)
from attnlab.construct.score_distribution import STEP, ScoreDistribution, softmax_moments
from attnlab.lab.trial import Outcome, Trial
from attnlab.studies.head_robustness.plan import EQUAL, VARIES
from attnlab.studies.head_robustness.trial import ARMS, BINS, FINE, with_value

_REACH = 12.0  # of the largest of n standard normals
ORDERS = (0.1, 0.05)  # steps of the trapezium rule; its error is far below rounding at both


def exact(trial: Trial) -> Outcome:
    """Columns over the line's points; where the part has one point, its distribution too."""
    c = trial.config
    columns: dict[str, list[float]] = {"x": [float(x) for x in c["x"]]}
    gaps, residuals = [0.0], [0.0]
    last: HeadComparison | None = None
    for x in c["x"]:
        last = law(with_value(c, x))
        for arm, found in zip(ARMS, (last.one, last.two), strict=True):
            for name, value in numbers(found).items():
                columns.setdefault(f"{arm}_{name}", []).append(value)
            gaps.append(quadrature_gap(found.law))
            residuals.append(found.residual)
    metrics: dict[str, Any] = {"quadrature_gap": max(gaps), "residual": max(residuals)}
    if c["part"] in (EQUAL, VARIES) and last is not None:
        metrics |= ends(c) | {"negative": float(last.two.negative[0, 0])}
        columns |= distribution(last)
    return Outcome(metrics, curves=columns)


def law(c: Any) -> HeadComparison:
    """One head and two on n orthonormal means."""
    means = np.eye(c["keys"])
    covariances = noisy_covariances(means, c["alpha"], 0, c["spread"])
    return compare_heads(means, covariances, (0, 1), c["beta"], c["tolerance"])


def numbers(found: Robustness) -> dict[str, float]:
    """The same names as a trial's metrics; `off_error` is 0 where P(off) is exact."""
    wanted = np.zeros(len(found.weights))
    wanted[list(found.pair)] = 0.5
    missed = float(((found.weights - wanted) ** 2).sum())
    a, b = found.pair
    covariance = found.weights_covariance
    return {
        "off": found.wrong,
        "off_error": found.wrong_error,
        "mean_a": float(found.weights[a]),
        "mean_b": float(found.weights[b]),
        "variance_a": float(covariance[a, a]),
        "variance_b": float(covariance[b, b]),
        "square": float(np.trace(covariance)) + missed,
    }


def quadrature_gap(scores: ScoreDistribution) -> float:
    """The largest change of any moment when the step of the quadrature is halved."""
    found = 0.0
    for mean, spread in zip(scores.mean, scores.spread, strict=True):
        coarse, fine = (softmax_moments(mean, spread, step) for step in (STEP, STEP / 2))
        found = max(
            found,
            float(np.abs(coarse.mean - fine.mean).max()),
            float(np.abs(coarse.second - fine.second).max()),
        )
    return found


def distribution(found: HeadComparison) -> dict[str, list[float]]:
    """P(weight of a < w) on a fine grid of w, whose every fifth point is the edge of a bin."""
    grid = np.linspace(0, 1, BINS * FINE + 1)
    columns = {"weight": [float(w) for w in grid]}
    for arm, side in zip(ARMS, (found.one, found.two), strict=True):
        below = side.weight_below(grid, side.pair[0])
        below[-1] = 1.0  # a weight rounded to 1 is not below 1
        columns[f"{arm}_below"] = [float(p) for p in below]
    return columns


def ends(c: Any) -> dict[str, float]:
    """P(off) of two heads as β → ∞, by two orders."""
    keys, alpha, spread = c["keys"], c["alpha"], c["spread"]
    found = [limit(keys, alpha, spread, step) for step in ORDERS]
    return {"limit_coarse": found[0], "limit": found[1]}


def limit(n: int, alpha: float, spread: float, step: float = ORDERS[-1]) -> float:
    """1 − P₁P₂ − (1 − P₁)(1 − P₂)/(n − 1)²."""
    first, second = (returns_own(n, alpha, own, step) for own in (alpha + spread, alpha))
    both = first * second + (1 - first) * (1 - second) / (n - 1) ** 2
    return min(max(1 - both, 0.0), 1.0)  # rounding leaves the range by 1e-14


def returns_own(n: int, alpha: float, own: float, step: float) -> float:
    """P(N(1, own) exceeds n − 1 draws of N(0, α))."""
    from scipy.special import ndtr

    if own == 0:
        return 1.0
    t = np.arange(-_REACH, _REACH + step / 2, step)
    density = (n - 1) * ndtr(t) ** (n - 2) * np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    return float(step * density @ ndtr((1 - math.sqrt(alpha) * t) / math.sqrt(own)))
