"""How far does the output of one head vary, and of two, when the keys are random?

    k_i ~ N(mu_i, Sigma_i) independent, weights of a head = softmax(scale K q), output = mean over
    the heads of weights @ V, wanted output (v_a + v_b)/2

    one head    q = beta (mu_a + mu_b): w_a / (w_a + w_b) = sigmoid(z_a - z_b) is logit-normal.
                With Sigma_a = alpha I + mu_a mu_a^T / 2 the length of k_a varies: z_a - z_b is
                about beta N(0, 1/2), and the head returns v_a or v_b, but rarely their mean
    two heads   q_1 = beta mu_a, q_2 = beta mu_b: each returns its own value as long as its score
                stays high. mu_a . k_a ~ N(1, 1/2) is negative with probability Phi(-sqrt 2) = 8 %

Mean and covariance are exact (moments.py); where two heads depend on the same noise, Sobol points
give their covariance. The probability of a wrong output is exact where it depends on one normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlab.construct.inputs import (
    AttentionInputs,
    check_index,
    check_keys,
    check_matrix,
    check_numbers,
    check_pair,
)
from attnlab.construct.moments import softmax_moments
from attnlab.construct.numerics import Array
from attnlab.construct.robustness_result import (
    HeadComparison,
    MonteCarlo,
    Robustness,
    RobustnessSettings,
)
from attnlab.construct.score_distribution import ScoreDistribution, probability_negative
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed


def noisy_covariances(means: Any, alpha: float, key: int, extra: float = 0.5) -> Array:
    """alpha I for every key, plus extra mu mu^T for key `key`, whose length then varies as well."""
    mu = check_keys(means)
    n, h = mu.shape
    at = check_index(key, n)
    if not (alpha >= 0 and extra >= 0 and math.isfinite(alpha + extra)):
        raise UsageError(f"a variance must not be negative: got {alpha!r} and {extra!r}")
    covariances = np.repeat(alpha * np.eye(h)[None], n, axis=0)
    covariances[at] += extra * np.outer(mu[at], mu[at])
    return covariances


def robustness(
    means: Any,
    covariances: Any,
    queries: Any,
    pair: Sequence[int],
    values: Any = None,
    settings: RobustnessSettings | None = None,
) -> Robustness:
    """The distribution of the output for random keys and fixed queries, one per head.

    `covariances` holds one h x h matrix per key, or one for all.
    """
    chosen = settings or RobustnessSettings()
    inputs = AttentionInputs.check(means, chosen.scale, values)
    n, h = inputs.keys.shape
    heads = check_numbers(queries, "queries")
    heads = check_matrix(heads[None] if heads.ndim == 1 else heads, "queries")
    if heads.shape[1] != h:
        raise UsageError(f"the keys have {h} entries but the queries {heads.shape[1]}")
    a, b = check_pair(pair, n)
    law = ScoreDistribution.of(inputs.keys, _covariances(covariances, n, h), heads, inputs.scale)
    mean, covariance, residual, method = _moments(law, chosen.seed)
    wrong, error, wrong_method = _probability_wrong(law, (a, b), chosen)
    v = inputs.values
    return Robustness(
        pair=(a, b),
        heads=len(heads),
        weights=mean,
        weights_covariance=covariance,
        output=inputs.output(mean),
        output_covariance=None if v is None else v.T @ covariance @ v,
        wrong=wrong,
        wrong_error=error,
        negative=_probability_negative_scores(law, (a, b)),
        share=_score_difference(law, (a, b)) if len(heads) == 1 else None,
        how={"weights": method, "wrong": wrong_method},
        residual=residual,
        sampled=_sample(law, (a, b), chosen),
        law=law,
    )


def compare_heads(
    means: Any,
    covariances: Any,
    pair: Sequence[int],
    beta: float,
    values: Any = None,
    settings: RobustnessSettings | None = None,
) -> HeadComparison:
    """One head with the query beta (mu_a + mu_b) against two with beta mu_a and beta mu_b."""
    mu = check_keys(means)
    a, b = check_pair(pair, len(mu))
    together, apart = beta * (mu[a] + mu[b])[None], beta * mu[[a, b]]
    one = robustness(mu, covariances, together, (a, b), values, settings)
    two = robustness(mu, covariances, apart, (a, b), values, settings)
    worst = float(np.array([two.negative[0, 0], two.negative[1, 1]]).max())
    low = 0.5 - (settings or RobustnessSettings()).tolerance
    why = (
        f"One head misses the average (a weight below {low:g}) with probability {one.wrong:.3g},"
        f" two heads with probability {two.wrong:.3g}; the key of one of the two heads has a score"
        f" below 0 with probability {worst:.3g}."
    )
    return HeadComparison(one, two, why)


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


def _moments(law: ScoreDistribution, seed: int) -> tuple[Array, Array, float, str]:
    """Mean and covariance of the weights averaged over the heads, the residual and the method."""
    parts = [softmax_moments(m, t) for m, t in zip(law.mean, law.spread, strict=True)]
    count = len(parts)
    mean = sum((part.mean for part in parts), np.zeros(law.mean.shape[1])) / count
    covariance = sum(part.covariance for part in parts) / count**2
    residual = max(part.residual for part in parts)
    if law.heads_are_independent:
        return mean, np.asarray(covariance), residual, "exact"
    joint = [_sample_covariance(weights.mean(axis=1)) for weights in law.sobol_weights(seed)]
    return mean, np.mean(joint, axis=0), residual, "exact mean; covariance by Sobol points"


def _sample_covariance(weights: Array) -> Array:
    centred = weights - weights.mean(axis=0)
    return centred.T @ centred / len(weights)


def _excess(law: ScoreDistribution, normals: Array, pair: tuple[int, int], low: float) -> Array:
    """The weights of a and b minus `low`; negative where the output is wrong."""
    return law.weights(normals).mean(axis=1)[:, list(pair)] - low


def _probability_wrong(
    law: ScoreDistribution, pair: tuple[int, int], chosen: RobustnessSettings
) -> tuple[float, float, str]:
    """P(weight of a or b < 1/2 - tolerance), its standard error, and the method."""
    low = 0.5 - chosen.tolerance
    normals = len(law.factors)
    if normals == 0:
        return float((_excess(law, np.zeros((1, 0)), pair, low) < 0).any()), 0.0, "no randomness"
    if law.mean.shape == (1, 2):  # w_a < low or w_a > 1 - low, and logit w_a is normal
        from scipy.special import ndtr

        mean, spread = _score_difference(law, pair)
        edge = math.log(1 - low) - math.log(low)
        return (
            float(ndtr((-edge - mean) / spread) + ndtr((mean - edge) / spread)),
            0.0,
            "closed form",
        )
    if normals == 1:
        wrong = probability_negative(lambda x: _excess(law, x[:, None], pair, low))
        return wrong, 0.0, "roots in one variable"
    shares = [
        float((w.mean(axis=1)[:, list(pair)] < low).any(axis=1).mean())
        for w in law.sobol_weights(chosen.seed)
    ]
    error = float(np.std(shares, ddof=1) / math.sqrt(len(shares)))
    return float(np.mean(shares)), error, "Sobol points"


def _probability_negative_scores(law: ScoreDistribution, pair: tuple[int, int]) -> Array:
    """P(score < 0) = Phi(-mean / spread) of both keys in every head; 0 or 1 for a fixed score."""
    from scipy.special import ndtr

    mean, spread = law.mean[:, list(pair)], law.spread[:, list(pair)]
    fixed = spread == 0
    return np.where(fixed, mean < 0, ndtr(-mean / np.where(fixed, 1.0, spread))).astype(np.float64)


def _score_difference(law: ScoreDistribution, pair: tuple[int, int]) -> tuple[float, float]:
    """Mean and standard deviation of z_a - z_b in the first head."""
    a, b = pair
    spread = math.hypot(law.spread[0, a], law.spread[0, b])
    return float(law.mean[0, a] - law.mean[0, b]), spread


def _sample(
    law: ScoreDistribution, pair: tuple[int, int], chosen: RobustnessSettings
) -> MonteCarlo:
    """Monte Carlo estimates of the mean weights and of the probability of a wrong output."""
    generator = Seed(chosen.seed).child("robustness").numpy_generator()
    total = np.zeros(law.mean.shape[1])
    square, drawn = total.copy(), []
    for part in law.sample_weights(chosen.samples, generator):
        weights = part.mean(axis=1)
        total, square = total + weights.sum(axis=0), square + (weights**2).sum(axis=0)
        drawn.append(weights[:, list(pair)])
    count = chosen.samples
    mean = total / count
    error = np.sqrt(np.maximum(square / count - mean**2, 0.0) / (count - 1))
    pairs = np.concatenate(drawn)
    wrong = float((pairs < 0.5 - chosen.tolerance).any(axis=1).mean())
    spread = math.sqrt(wrong * (1 - wrong) / count)
    return MonteCarlo(count, mean, error, wrong, spread, pairs)
