"""How far does the output of one head vary, and of two, when the keys are random?

    k_i ~ N(mu_i, Sigma_i) independent, weights of a head = softmax(scale K q), output = mean over
    the heads of weights @ V, wanted output (v_a + v_b)/2

    one head    q = beta (mu_a + mu_b): w_a / (w_a + w_b) = sigmoid(z_a - z_b) is logit-normal.
                With Sigma_a = alpha I + mu_a mu_a^T / 2 the length of k_a varies: z_a - z_b is
                about beta N(0, 1/2), and the head returns v_a or v_b, but rarely their mean
    two heads   q_1 = beta mu_a, q_2 = beta mu_b: each returns its own value as long as its score
                stays high. mu_a . k_a ~ N(1, 1/2) is negative with probability Phi(-sqrt 2) = 8 %

Mean and covariance are exact (score_distribution.py); where two heads depend on the same noise,
Sobol points give their covariance. The probability of a wrong output is exact where it depends on
one normal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attnlab.construct.inputs import (
    Scale,
    check_index,
    check_matrix,
    check_numbers,
    check_pair,
    resolve_scale,
)
from attnlab.construct.numerics import Array
from attnlab.construct.score_distribution import (
    ScoreDistribution,
    probability_negative,
    softmax_moments,
)
from attnlab.core.errors import UsageError


@dataclass(frozen=True, eq=False)
class Robustness:
    """Mean and covariance of the weights, averaged over the heads.

    wrong      P(weight of a or of b < 1/2 - tolerance); `wrong_error` is its standard error, 0 if
               it is exact
    negative   P(score < 0) of keys a and b, one row per head
    residual   how far the sums of the moments are from 1
    """

    pair: tuple[int, int]
    weights: Array
    weights_covariance: Array
    wrong: float
    wrong_error: float
    negative: Array
    residual: float
    law: ScoreDistribution

    def weight_below(self, points: Any, key: int) -> Array:
        """P(weight of `key`, averaged over the heads, < x) for every x in `points`.

        Exact where the weights depend on a single normal variable, otherwise by Sobol points.
        """
        x = np.asarray(points, dtype=np.float64).reshape(-1)
        if len(self.law.factors) == 1:
            return np.array([self._weight_below(c, key) for c in x])
        if not self.law.factors:
            return (self.weights[key] < x).astype(np.float64)
        parts = [np.sort(w[:, key]) for w in self.law.sobol_weights(0)]
        return np.mean([np.searchsorted(part, x) / len(part) for part in parts], axis=0)

    def _weight_below(self, x: float, key: int) -> float:
        return probability_negative(lambda normal: self.law.weights(normal[:, None])[:, [key]] - x)


class HeadComparison(NamedTuple):
    """One head with the query beta (mu_a + mu_b), and two with beta mu_a and beta mu_b."""

    one: Robustness
    two: Robustness


def noisy_covariances(means: Any, alpha: float, key: int, extra: float = 0.5) -> Array:
    """alpha I for every key, plus extra mu mu^T for key `key`, whose length then varies as well."""
    mu = check_matrix(means, "keys")
    n, h = mu.shape
    at = check_index(key, n)
    if not (alpha >= 0 and extra >= 0 and math.isfinite(alpha + extra)):
        raise UsageError(f"a variance must not be negative: got {alpha!r} and {extra!r}")
    covariances = np.repeat(alpha * np.eye(h)[None], n, axis=0)
    covariances[at] += extra * np.outer(mu[at], mu[at])
    return covariances


def robustness(  # noqa: PLR0913  (each is a choice of the caller)
    means: Any,
    covariances: Any,
    queries: Any,
    pair: Sequence[int],
    tolerance: float = 0.25,
    scale: Scale = 1.0,
    seed: int = 0,
) -> Robustness:
    """The distribution of the weights for random keys and fixed queries, one per head.

    `covariances` holds one h x h matrix per key, or one for all. The output counts as wrong where
    the weight of a or of b is below 1/2 - `tolerance`. `seed` scrambles the Sobol points.
    """
    if not 0 < tolerance < 0.5:
        raise UsageError(f"the tolerance must lie between 0 and 1/2: got {tolerance!r}")
    mu = check_matrix(means, "keys")
    n, h = mu.shape
    heads = check_numbers(queries, "queries")
    heads = check_matrix(heads[None] if heads.ndim == 1 else heads, "queries")
    if heads.shape[1] != h:
        raise UsageError(f"the keys have {h} entries but the queries {heads.shape[1]}")
    a, b = check_pair(pair, n)
    factor = resolve_scale(scale, h)
    law = ScoreDistribution.of(mu, _covariances(covariances, n, h), heads, factor)
    mean, covariance, residual = _moments(law, seed)
    wrong, error = _probability_wrong(law, (a, b), 0.5 - tolerance, seed)
    negative = _probability_negative_scores(law, (a, b))
    return Robustness((a, b), mean, covariance, wrong, error, negative, residual, law)


def compare_heads(
    means: Any, covariances: Any, pair: Sequence[int], beta: float, tolerance: float = 0.25
) -> HeadComparison:
    """One head with the query beta (mu_a + mu_b) against two with beta mu_a and beta mu_b."""
    mu = check_matrix(means, "keys")
    a, b = check_pair(pair, len(mu))
    together, apart = beta * (mu[a] + mu[b])[None], beta * mu[[a, b]]
    one, two = (robustness(mu, covariances, q, (a, b), tolerance) for q in (together, apart))
    return HeadComparison(one, two)


def _covariances(given: Any, n: int, h: int) -> Array:
    """One symmetric h x h matrix per key, without negative eigenvalues beyond rounding."""
    matrices = check_numbers(given, "covariances")
    if matrices.shape == (h, h):
        matrices = np.repeat(matrices[None], n, axis=0)
    if matrices.shape != (n, h, h):
        raise UsageError(f"covariances must be {n} matrices of {h} x {h}: got {matrices.shape}")
    size = np.abs(matrices).max(axis=(1, 2))
    if (np.abs(matrices - matrices.transpose(0, 2, 1)).max(axis=(1, 2)) > 1e-9 * size).any():
        raise UsageError("a covariance must be a symmetric matrix")
    if (np.linalg.eigvalsh(matrices).min(axis=1) < -1e-9 * size).any():
        raise UsageError("a covariance must not have a negative eigenvalue")
    return matrices


def _moments(law: ScoreDistribution, seed: int) -> tuple[Array, Array, float]:
    """Mean and covariance of the weights averaged over the heads, and the residual."""
    parts = [softmax_moments(m, t) for m, t in zip(law.mean, law.spread, strict=True)]
    count = len(parts)
    mean = sum((part.mean for part in parts), np.zeros(law.mean.shape[1])) / count
    covariance = sum(part.covariance for part in parts) / count**2
    residual = max(part.residual for part in parts)
    if law.heads_are_independent:
        return mean, np.asarray(covariance), residual
    joint = [_sample_covariance(weights) for weights in law.sobol_weights(seed)]
    return mean, np.mean(joint, axis=0), residual


def _sample_covariance(weights: Array) -> Array:
    centred = weights - weights.mean(axis=0)
    return centred.T @ centred / len(weights)


def _excess(law: ScoreDistribution, normals: Array, pair: tuple[int, int], low: float) -> Array:
    """The weights of a and b minus `low`; negative where the output is wrong."""
    return law.weights(normals)[:, list(pair)] - low


def _probability_wrong(
    law: ScoreDistribution, pair: tuple[int, int], low: float, seed: int
) -> tuple[float, float]:
    """P(weight of a or b < low) and its standard error, 0 where the probability is exact."""
    normals = len(law.factors)
    if normals == 0:
        return float((_excess(law, np.zeros((1, 0)), pair, low) < 0).any()), 0.0
    if law.mean.shape == (1, 2):  # w_a < low or w_a > 1 - low, and logit w_a is normal
        from scipy.special import ndtr

        a, b = pair
        mean = float(law.mean[0, a] - law.mean[0, b])
        spread = math.hypot(law.spread[0, a], law.spread[0, b])
        edge = math.log(1 - low) - math.log(low)
        return float(ndtr((-edge - mean) / spread) + ndtr((mean - edge) / spread)), 0.0
    if normals == 1:
        return probability_negative(lambda x: _excess(law, x[:, None], pair, low)), 0.0
    shares = [float((w[:, list(pair)] < low).any(axis=1).mean()) for w in law.sobol_weights(seed)]
    return float(np.mean(shares)), float(np.std(shares, ddof=1) / math.sqrt(len(shares)))


def _probability_negative_scores(law: ScoreDistribution, pair: tuple[int, int]) -> Array:
    """P(score < 0) = Phi(-mean / spread) of both keys in every head; 0 or 1 for a fixed score."""
    from scipy.special import ndtr

    mean, spread = law.mean[:, list(pair)], law.spread[:, list(pair)]
    fixed = spread == 0
    return np.where(fixed, mean < 0, ndtr(-mean / np.where(fixed, 1.0, spread))).astype(np.float64)
