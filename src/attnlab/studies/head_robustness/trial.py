"""One trial: keys are drawn and attended to, or the law of the output is computed.

The simulation draws whole keys in h dimensions around means turned at random, and runs softmax
attention on them; the law (`attnlab.construct`) knows the scores' means and variances only. Neither
can inherit the other's mistake. The law has moments by quadrature, P(off), and the limit β → ∞:

limit   two heads of infinite β return the keys of the largest score. Head 1 returns a with
        P₁ = E Φ((1 − √α M)/√(α + spread)), M the largest of n − 1 standard normals; head 2 returns
        b with P₂, the same with spread 0. Off unless a and b are returned, once each:
        1 − P₁P₂ − (1 − P₁)(1 − P₂)/(n − 1)²
"""

import math
from typing import Any

import numpy as np
from scipy.special import ndtr, softmax

from attnlab.construct.numerics import Array
from attnlab.construct.robustness import (
    HeadComparison,
    Robustness,
    compare_heads,
    noisy_covariances,
)
from attnlab.construct.score_distribution import STEP, ScoreDistribution, softmax_moments
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.head_robustness.study import ARMS, EQUAL, SWEPT, VARIES, HeadRobustness

BINS, FINE = 21, 5  # of the weight of a; an odd number, so that one half is the middle of a bin
_AT_ONCE = 2_000_000  # entries of keys held in memory
_REACH = 12.0  # of the largest of n standard normals
ORDERS = (0.1, 0.05)  # steps of the trapezium rule; its error is far below rounding at both


def run(study: HeadRobustness, trial: Trial, context: TrialContext) -> Outcome:
    """Draw keys and attend to them, or compute the exact law of the output."""
    return exact(trial) if trial.config["kind"] == "exact" else draws(trial)


def draws(trial: Trial) -> Outcome:
    """Both arrangements on the same keys; every number a share or a mean over the draws."""
    c = trial.config
    sample = Sample(trial)
    metrics: dict[str, Any] = {
        "negative": float((sample.own_score < 0).mean()),
        "lost": float((sample.own_weight < 0.5).mean()),
    }
    curves: dict[str, list[float]] = {}
    edges = np.linspace(0, 1, BINS + 1)
    for arm in ARMS:
        pair, square = sample.pair[arm], sample.square[arm]
        off = (np.abs(pair - 0.5) > c["tolerance"]).any(axis=1)
        metrics |= {
            f"{arm}_off": float(off.mean()),
            f"{arm}_mean_a": float(pair[:, 0].mean()),
            f"{arm}_mean_b": float(pair[:, 1].mean()),
            f"{arm}_variance_a": float(pair[:, 0].var()),
            f"{arm}_square": float(square.mean()),
        }
        if arm == "two":
            metrics["off_and_lost"] = float((off & (sample.own_weight < 0.5)).mean())
        counts, _ = np.histogram(pair[:, 0], edges)
        curves[f"{arm}_bins"] = (counts / len(pair)).tolist()
    return Outcome(metrics, curves=curves, arrays=sample.shown(c["shown"]) if c["shown"] else {})


class Sample:
    """Both arrangements on the same random keys: one row a draw."""

    def __init__(self, trial: Trial) -> None:
        c = trial.config
        n, h, beta = c["keys"], c["dims"], c["beta"]
        means = orthonormal(n, h, trial.stream.child("means").numpy_generator())
        noise = trial.stream.child("noise").numpy_generator()
        length = trial.stream.child("length").numpy_generator()
        self.pair: dict[str, Array] = {arm: np.empty((c["draws"], 2)) for arm in ARMS}
        self.square: dict[str, Array] = {arm: np.empty(c["draws"]) for arm in ARMS}
        self.own_score, self.own_weight = np.empty(c["draws"]), np.empty(c["draws"])
        queries = {"one": beta * (means[:1] + means[1:2]), "two": beta * means[:2]}
        wanted = np.array([0.5, 0.5, *[0.0] * (n - 2)])
        part = max(1, _AT_ONCE // (n * h))
        for start in range(0, c["draws"], part):
            rows = slice(start, min(start + part, c["draws"]))
            count = rows.stop - start
            keys = means + math.sqrt(c["alpha"]) * noise.standard_normal((count, n, h))
            along = math.sqrt(c["spread"]) * length.standard_normal(count)
            keys[:, 0] += along[:, None] * means[0]
            self.own_score[rows] = keys[:, 0] @ means[0]
            if start == 0:
                self.first = keys[: c["shown"]] @ means[:2].T  # along μ_a and μ_b
            for arm, asked in queries.items():
                heads = softmax(keys @ asked.T, axis=1)  # draw, key, head
                weights = heads.mean(axis=2)  # with orthonormal values, the output's coordinates
                self.pair[arm][rows] = weights[:, :2]
                self.square[arm][rows] = ((weights - wanted) ** 2).sum(axis=1)
                if arm == "two":
                    self.own_weight[rows] = heads[:, 0, 0]

    def shown(self, count: int) -> dict[str, np.ndarray]:
        """The first draws: keys in the plane of μ_a and μ_b, outputs in that of v_a and v_b."""
        outputs = {f"{arm}_output": self.pair[arm][:count].astype(np.float32) for arm in ARMS}
        return {"keys": self.first[:count].astype(np.float32), **outputs}


def orthonormal(n: int, h: int, generator: np.random.Generator) -> Array:
    """n orthonormal rows in h dimensions, turned at random."""
    turned, _ = np.linalg.qr(generator.standard_normal((h, n)))
    return turned.T


def exact(trial: Trial) -> Outcome:
    """Columns over the line's points; where the part has one point, its distribution too."""
    c = trial.config
    columns: dict[str, list[float]] = {"x": [float(x) for x in c["x"]]}
    gaps, residuals = [0.0], [0.0]
    last: HeadComparison | None = None
    for x in c["x"]:
        last = law({**c, SWEPT[c["part"]]: x})
        for arm, found in zip(ARMS, (last.one, last.two), strict=True):
            for name, value in numbers(found).items():
                columns.setdefault(f"{arm}_{name}", []).append(value)
            gaps.append(quadrature_gap(found.law))
            residuals.append(found.residual)
    metrics: dict[str, Any] = {"quadrature_gap": max(gaps), "residual": max(residuals)}
    if c["part"] in (EQUAL, VARIES) and last is not None:
        coarse, fine = (limit(c["keys"], c["alpha"], c["spread"], step) for step in ORDERS)
        negative = float(last.two.negative[0, 0])
        metrics |= {"limit_coarse": coarse, "limit": fine, "negative": negative}
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
    gaps = [0.0]
    for mean, spread in zip(scores.mean, scores.spread, strict=True):
        coarse, fine = (softmax_moments(mean, spread, step) for step in (STEP, STEP / 2))
        gaps += [np.abs(coarse.mean - fine.mean).max(), np.abs(coarse.second - fine.second).max()]
    return float(max(gaps))


def distribution(found: HeadComparison) -> dict[str, list[float]]:
    """P(weight of a < w) on a fine grid of w, whose every fifth point is the edge of a bin."""
    grid = np.linspace(0, 1, BINS * FINE + 1)
    columns: dict[str, list[float]] = {"weight": grid.tolist()}
    for arm, side in zip(ARMS, (found.one, found.two), strict=True):
        below = side.weight_below(grid, side.pair[0])
        below[-1] = 1.0  # a weight rounded to 1 is not below 1
        columns[f"{arm}_below"] = below.tolist()
    return columns


def limit(n: int, alpha: float, spread: float, step: float = ORDERS[-1]) -> float:
    """1 − P₁P₂ − (1 − P₁)(1 − P₂)/(n − 1)²."""
    first, second = (returns_own(n, alpha, own, step) for own in (alpha + spread, alpha))
    both = first * second + (1 - first) * (1 - second) / (n - 1) ** 2
    return min(max(1 - both, 0.0), 1.0)  # rounding leaves the range by 1e-14


def returns_own(n: int, alpha: float, own: float, step: float) -> float:
    """P(N(1, own) exceeds n − 1 draws of N(0, α))."""
    if own == 0:
        return 1.0
    t = np.arange(-_REACH, _REACH + step / 2, step)
    density = (n - 1) * ndtr(t) ** (n - 2) * np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    return float(step * density @ ndtr((1 - math.sqrt(alpha) * t) / math.sqrt(own)))
