"""Keys drawn around means: how far does the output of one head swing, and of two?

    k_i ~ N(mu_i, Sigma_i) independent, weights of a head = softmax(scale K q), output = mean over
    the heads of weights @ V, wanted (v_a + v_b)/2

    one head    q = beta (mu_a + mu_b): w_a / (w_a + w_b) = sigmoid(z_a - z_b) is logit-normal.
                With Sigma_a = alpha I + mu_a mu_a^T / 2 the length of k_a varies: z_a - z_b is
                about beta N(0, 1/2), and the head returns v_a or v_b, hardly ever the mean
    two heads   q_1 = beta mu_a, q_2 = beta mu_b: each returns its own value as long as its score
                stays high. mu_a . k_a ~ N(1, 1/2) is negative with probability Phi(-sqrt 2) = 8 %

Mean and covariance are exact (`gumbel.py`); where two heads see the same noise, their covariance is
by even points. The probability of a wrong output is closed where one normal is all there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.inputs import (
    check_index,
    check_keys,
    check_matrix,
    check_numbers,
    check_values,
    resolve_scale,
)
from attnlab.construct.moments import softmax_moments
from attnlab.construct.robustness_result import (
    HeadComparison,
    MonteCarlo,
    Robustness,
    RobustnessSettings,
)
from attnlab.construct.score_distribution import ScoreDistribution, probability_negative
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed

Array = NDArray[np.float64]


def noisy_covariances(means: Any, alpha: float, key: int, extra: float = 0.5) -> Array:
    """Covariances alpha I for every key, and alpha I + extra mu mu^T for this one."""
    found = check_keys(means)
    n, h = found.shape
    at = check_index(key, n)
    if not (alpha >= 0 and extra >= 0 and math.isfinite(alpha + extra)):
        raise UsageError(f"a variance is not negative: got {alpha!r} and {extra!r}")
    covariances = np.repeat(alpha * np.eye(h)[None], n, axis=0)
    covariances[at] += extra * np.outer(found[at], found[at])
    return covariances


def robustness(
    means: Any,
    covariances: Any,
    queries: Any,
    pair: Sequence[int],
    values: Any = None,
    settings: RobustnessSettings | None = None,
) -> Robustness:
    """The law of the output when the keys are random and the queries (one a head) are fixed.

    `covariances`: one h x h matrix a key, or one for all.
    """
    chosen = settings or RobustnessSettings()
    mu = check_keys(means)
    n, h = mu.shape
    heads = check_numbers(queries, "queries")
    heads = check_matrix(heads[None] if heads.ndim == 1 else heads, "queries")
    if heads.shape[1] != h:
        raise UsageError(f"the keys have {h} entries, the queries {heads.shape[1]}")
    a, b = _two(pair, n)
    given = check_values(values, n)
    law = ScoreDistribution.of(
        mu, _covariances(covariances, n, h), heads, resolve_scale(chosen.scale, h)
    )
    mean, covariance, residual, how = _moments(law, chosen.seed)
    wrong, error, way = _wrong(law, (a, b), chosen)
    return Robustness(
        pair=(a, b),
        heads=len(heads),
        weights=mean,
        weights_covariance=covariance,
        output=None if given is None else mean @ given,
        output_covariance=None if given is None else given.T @ covariance @ given,
        wrong=wrong,
        wrong_error=error,
        negative=_negative(law, (a, b)),
        share=_share(law, (a, b)) if len(heads) == 1 else None,
        how={"weights": how, "wrong": way},
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
    """q = beta (mu_a + mu_b) in one head, beside beta mu_a and beta mu_b in two."""
    mu = check_keys(means)
    a, b = _two(pair, len(mu))
    together, apart = beta * (mu[a] + mu[b])[None], beta * mu[[a, b]]
    one = robustness(mu, covariances, together, (a, b), values, settings)
    two = robustness(mu, covariances, apart, (a, b), values, settings)
    worst = float(np.array([two.negative[0, 0], two.negative[1, 1]]).max())
    low = 0.5 - (settings or RobustnessSettings()).tolerance
    why = (
        f"One head misses the average (a weight below {low:g}) with probability {one.wrong:.3g},"
        f" two heads with {two.wrong:.3g}; a head's own key scores below 0 with {worst:.3g}."
    )
    return HeadComparison(one, two, why)


def _two(pair: Sequence[int], n: int) -> tuple[int, int]:
    found = [check_index(item, n) for item in pair]
    if len(found) != 2 or found[0] == found[1]:
        raise UsageError(f"name two different keys: got {', '.join(map(str, found))}")
    return found[0], found[1]


def _covariances(given: Any, n: int, h: int) -> Array:
    """(n, h, h), symmetric, no negative eigenvalue beyond rounding."""
    found = check_numbers(given, "covariances")
    if found.shape == (h, h):
        found = np.repeat(found[None], n, axis=0)
    if found.shape != (n, h, h):
        raise UsageError(f"covariances must be {n} matrices of {h} x {h}: got {found.shape}")
    size = np.abs(found).max(axis=(1, 2))
    if (np.abs(found - found.transpose(0, 2, 1)).max(axis=(1, 2)) > 1e-9 * size).any():
        raise UsageError("a covariance is a symmetric matrix")
    if (np.linalg.eigvalsh(found).min(axis=1) < -1e-9 * size).any():
        raise UsageError("a covariance has no negative eigenvalue")
    return found


def _moments(law: ScoreDistribution, seed: int) -> tuple[Array, Array, float, str]:
    """Mean and covariance of the mean weights over the heads."""
    parts = [softmax_moments(m, t) for m, t in zip(law.mean, law.spread, strict=True)]
    count = len(parts)
    mean = sum((part.mean for part in parts), np.zeros(law.mean.shape[1])) / count
    covariance = sum(part.covariance for part in parts) / count**2
    residual = max(part.residual for part in parts)
    if law.heads_are_independent:
        return mean, np.asarray(covariance), residual, "exact"
    whole = np.mean([_covariance_of(found.mean(axis=1)) for found in law.even(seed)], axis=0)
    return mean, whole, residual, "exact mean; covariance by even points"


def _covariance_of(weights: Array) -> Array:
    centred = weights - weights.mean(axis=0)
    return centred.T @ centred / len(weights)


def _short(law: ScoreDistribution, normals: Array, pair: tuple[int, int], low: float) -> Array:
    """Weights of a and b above `low`; negative where the output is wrong."""
    return law.weights(normals).mean(axis=1)[:, list(pair)] - low


def _wrong(
    law: ScoreDistribution, pair: tuple[int, int], chosen: RobustnessSettings
) -> tuple[float, float, str]:
    """P(weight of a or b < 1/2 - tolerance), its standard error, and how it was found."""
    low = 0.5 - chosen.tolerance
    normals = len(law.factors)
    if normals == 0:
        return float((_short(law, np.zeros((1, 0)), pair, low) < 0).any()), 0.0, "no randomness"
    if law.mean.shape == (1, 2):  # w_a < low or w_a > 1 - low, and logit w_a is normal
        from scipy.special import ndtr

        mean, spread = _share(law, pair)
        edge = math.log(1 - low) - math.log(low)
        return float(ndtr((-edge - mean) / spread) + ndtr((mean - edge) / spread)), 0.0, "closed"
    if normals == 1:
        found = probability_negative(lambda x: _short(law, x[:, None], pair, low))
        return found, 0.0, "roots on a line"
    shares = [
        float((w.mean(axis=1)[:, list(pair)] < low).any(axis=1).mean())
        for w in law.even(chosen.seed)
    ]
    error = float(np.std(shares, ddof=1) / math.sqrt(len(shares)))
    return float(np.mean(shares)), error, "even points"


def _negative(law: ScoreDistribution, pair: tuple[int, int]) -> Array:
    """Phi(-mean / spread) of both scores in every head; 0 or 1 where a score is not random."""
    from scipy.special import ndtr

    mean, spread = law.mean[:, list(pair)], law.spread[:, list(pair)]
    fixed = spread == 0
    return np.where(fixed, mean < 0, ndtr(-mean / np.where(fixed, 1.0, spread))).astype(np.float64)


def _share(law: ScoreDistribution, pair: tuple[int, int]) -> tuple[float, float]:
    """Mean and standard deviation of z_a - z_b in the first head."""
    a, b = pair
    spread = math.hypot(law.spread[0, a], law.spread[0, b])
    return float(law.mean[0, a] - law.mean[0, b]), spread


def _sample(
    law: ScoreDistribution, pair: tuple[int, int], chosen: RobustnessSettings
) -> MonteCarlo:
    """Plain random draws."""
    generator = Seed(chosen.seed).child("robustness").numpy_generator()
    total = np.zeros(law.mean.shape[1])
    square, kept = total.copy(), []
    for found in law.sampled(chosen.samples, generator):
        weights = found.mean(axis=1)
        total, square = total + weights.sum(axis=0), square + (weights**2).sum(axis=0)
        kept.append(weights[:, list(pair)])
    count = chosen.samples
    mean = total / count
    error = np.sqrt(np.maximum(square / count - mean**2, 0.0) / (count - 1))
    pairs = np.concatenate(kept)
    wrong = float((pairs < 0.5 - chosen.tolerance).any(axis=1).mean())
    spread = math.sqrt(wrong * (1 - wrong) / count)
    return MonteCarlo(count, mean, error, wrong, spread, pairs)
