"""Random keys: quadratures of other kinds, closed forms, and draws within five standard errors."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import norm

from attnlab.construct import compare_heads, noisy_covariances, robustness
from attnlab.construct.score_distribution import softmax_moments
from attnlab.core.errors import UsageError

SIGMAS = 5  # of a normal: one false alarm in two million
NODES, MASSES = np.polynomial.hermite_e.hermegauss(80)
MASSES = MASSES / MASSES.sum()


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def strayed(mean: np.ndarray, count: int) -> np.ndarray:
    """Bernstein: a mean of `count` draws in [0, 1] strays further once in a million.

    Their variance is at most their mean; 14.5 = log(2e6).
    """
    level = 14.5 / (3 * count)
    return level + np.sqrt(level**2 + 2 * 14.5 * mean / count)


def draw(means: np.ndarray, covariances: np.ndarray, queries: np.ndarray, count: int) -> np.ndarray:
    """Weights, averaged over the heads, of keys drawn from their normal distributions."""
    rng = np.random.default_rng(3)
    values, vectors = np.linalg.eigh(covariances)
    roots = vectors * np.sqrt(np.maximum(values, 0))[:, None]
    noise = rng.normal(size=(count, *means.shape))
    keys = means + np.einsum("nde,cne->cnd", roots, noise)
    return softmax(np.einsum("hd,cnd->chn", queries, keys)).mean(axis=1)


def by_product_rule(mean: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[w], E[w w^T] of three keys by 80^3 Gauss-Hermite points: nothing in common with ours."""
    grid = np.stack(np.meshgrid(NODES, NODES, NODES, indexing="ij"), axis=-1).reshape(-1, 3)
    mass = (MASSES[:, None, None] * MASSES[:, None] * MASSES).reshape(-1)
    weights = softmax(mean + spread * grid)
    return mass @ weights, np.einsum("p,pi,pj->ij", mass, weights, weights)


@pytest.mark.parametrize("spread", [(0.3, 0.1, 0.4), (0.7, 0.2, 0.0), (1.0, 0.9, 0.6)])
def test_moments_equal_those_of_a_product_rule(spread: tuple[float, float, float]) -> None:
    mean = np.array([0.4, -1.1, 0.9])
    found = softmax_moments(mean, np.array(spread))
    first, second = by_product_rule(mean, np.array(spread))
    # 80 nodes on a function whose poles are pi / spread away: e^(-sqrt(160) pi / 1) = 5e-18.
    np.testing.assert_allclose(found.mean, first, atol=1e-13)
    np.testing.assert_allclose(found.second, second, atol=1e-13)


@pytest.mark.parametrize(("gap", "spread"), [(0.0, 0.2), (1.5, 3.0), (-4.0, 25.0), (0.3, 300.0)])
def test_two_keys_are_logit_normal(gap: float, spread: float) -> None:
    found = softmax_moments(np.array([gap, 0.0]), np.array([0.6, 0.8]) * spread)

    def moment(power: int) -> float:
        # The sigmoid turns within a few units of 0: split there, in units of the normal.
        edges = np.clip([(-gap + cut) / spread for cut in (-30, 0, 30)], -10, 10)
        ends = [-10.0, *edges, 10.0]
        weight = lambda x: expit(gap + spread * x) ** power * norm.pdf(x)  # noqa: E731
        return sum(quad(weight, a, b, epsabs=1e-13)[0] for a, b in pairwise(ends) if b > a)

    assert found.mean[0] == pytest.approx(moment(1), abs=1e-11)
    assert found.second[0, 0] == pytest.approx(moment(2), abs=1e-11)


@pytest.mark.parametrize("seed", range(4))
def test_a_finer_grid_changes_nothing_and_draws_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = (5, 7, 11, 13)[seed]
    mean = rng.normal(size=n) * 3
    spread = np.abs(rng.normal(size=n)) * (0.1, 1, 10, 60)[seed]
    spread[0] = 0
    found, finer = softmax_moments(mean, spread), softmax_moments(mean, spread, step=0.1)
    assert found.residual < 1e-13
    np.testing.assert_allclose(found.mean, finer.mean, atol=1e-13)
    np.testing.assert_allclose(found.second, finer.second, atol=1e-13)
    weights = softmax(mean + spread * rng.normal(size=(40_000, n)))
    assert (np.abs(weights.mean(axis=0) - found.mean) <= strayed(found.mean, 40_000)).all()
    second = weights.T @ weights / 40_000
    assert (np.abs(second - found.second) <= strayed(found.second, 40_000)).all()


def test_keys_that_share_a_law_share_their_moments() -> None:
    found = softmax_moments(np.array([1.0, 0, 0, 0, 0]), np.array([2.0, 1, 1, 1, 1]))
    np.testing.assert_array_equal(found.mean[1:], np.full(4, found.mean[1]))
    assert found.mean.sum() == pytest.approx(1, abs=1e-14)


def test_scores_spread_beyond_reason_are_refused() -> None:
    with pytest.raises(UsageError):
        softmax_moments(np.zeros(2), np.array([1e7, 1.0]))


def test_the_course_s_case() -> None:
    """mu = axes, alpha = 0, key 0 with mu mu^T / 2: y = mu.k ~ N(1, 1/2) is below 0 in 8 %."""
    means, beta = np.eye(4), 20.0
    found = compare_heads(means, noisy_covariances(means, 0.0, 0), (0, 1), beta)
    assert found.two.negative[0, 0] == pytest.approx(ndtr(-math.sqrt(2)), rel=1e-12)
    assert found.two.negative[0, 0] == pytest.approx(0.0786, abs=5e-5)
    assert found.two.negative[1, 1] == 0
    # One head: w_0 = sigmoid(beta (y - 1)) but for two keys of score 0; outside [1/4, 3/4]:
    inside = math.log(3) / (beta * math.sqrt(0.5))
    assert found.one.wrong == pytest.approx(2 * ndtr(-inside), abs=1e-8)
    # Two heads: head 0 must give key 0 a weight of 1/2: e^(beta y) >= 3 + ... (keys of score 0).
    # mean weight of key 0 is (w + c)/2 with c its weight in head 1, e^0 / (e^20 + 3).
    c = 1 / (math.exp(beta) + 3)
    need = 0.5 - c
    edge = math.log(3 * need / (1 - need)) / beta
    assert found.two.wrong == pytest.approx(ndtr((edge - 1) / math.sqrt(0.5)), rel=1e-9)
    assert found.one.wrong_error == found.two.wrong_error == 0


@pytest.mark.parametrize("alpha", [0.0, 0.02])
def test_draws_agree_with_everything_exact(alpha: float) -> None:
    means, beta, count = np.eye(5)[:3], 7.0, 40_000
    covariances = noisy_covariances(means, alpha, 0)
    found = compare_heads(means, covariances, (0, 1), beta)
    for law, queries in ((found.one, beta * means[:2].sum(0)[None]), (found.two, beta * means[:2])):
        drawn = draw(means, covariances, queries, count)
        error = drawn.std(axis=0, ddof=1) / math.sqrt(count)
        assert (np.abs(drawn.mean(axis=0) - law.weights) <= SIGMAS * error + 1e-15).all()
        wrong = float((drawn[:, :2] < 0.25).any(axis=1).mean())
        spread = math.hypot(math.sqrt(wrong * (1 - wrong) / count), law.wrong_error)
        assert abs(wrong - law.wrong) <= SIGMAS * spread
        expected = np.diag(law.weights_covariance)[[0, 1]]
        # Of a bounded variable: the variance of (w - mean)^2 is at most 1/16 of its range^4.
        assert (np.abs(drawn[:, :2].var(axis=0) - expected) <= SIGMAS * 0.25 / 200).all()


def test_heads_that_see_the_same_noise_are_correlated() -> None:
    """Means that are not orthogonal: against draws, and against treating heads as independent."""
    means = np.array([[1.0, 0.2], [0.3, 1.0], [-1.0, 0.0]])
    queries, covariances = 4 * means[:2], noisy_covariances(means, 0.1, 0)
    law = robustness(means, covariances, queries, (0, 1))
    drawn = draw(means, covariances, queries, 40_000)
    assert np.abs(np.cov(drawn.T) - law.weights_covariance).max() <= SIGMAS * 0.25 / 200
    error = drawn.std(axis=0) / math.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - law.weights) <= SIGMAS * error).all()
    apart = [robustness(means, covariances, q, (0, 1)).weights_covariance for q in queries]
    assert np.abs((apart[0] + apart[1]) / 4 - law.weights_covariance).max() > 0.01


def test_two_keys_and_one_head_are_closed() -> None:
    means = np.array([[1.0, 0.0], [0.5, 0.5]])
    covariances = np.array([[[0.3, 0.1], [0.1, 0.2]], [[0.1, 0.0], [0.0, 0.4]]])
    query = np.array([2.0, 1.0])
    law = robustness(means, covariances, query, (0, 1), scale="sqrt")
    gap = (means[0] - means[1]) @ query / math.sqrt(2)
    spread = math.sqrt(query @ (covariances[0] + covariances[1]) @ query / 2)
    assert law.wrong_error == 0

    def density(s: float) -> float:
        """Of the share w_a / (w_a + w_b), whose log-odds are normal."""
        x = (math.log(s) - math.log1p(-s) - gap) / spread
        return math.exp(-0.5 * x * x) / (math.sqrt(2 * math.pi) * spread * s * (1 - s))

    inside = quad(lambda s: density(s), 0.25, 0.75, epsabs=1e-13)[0]
    assert law.wrong == pytest.approx(1 - inside, abs=1e-11)
    whole = quad(lambda s: density(s), 0, 1, epsabs=1e-12, points=[0.01, 0.99])[0]
    assert whole == pytest.approx(1, abs=1e-9)
    mean = quad(lambda s: s * density(s), 0, 1, epsabs=1e-12, points=[0.99])[0]
    assert law.weights[0] == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_the_distribution_of_a_weight_is_that_of_the_draws(alpha: float) -> None:
    means, beta = np.eye(3), 5.0
    covariances = noisy_covariances(means, alpha, 0)
    found = compare_heads(means, covariances, (0, 1), beta)
    points = np.linspace(0.02, 0.98, 25)
    # Dvoretzky, Kiefer, Wolfowitz: all points at once, one alarm in a million.
    near = math.sqrt(math.log(2e6) / (2 * 20_000))
    for law, queries in ((found.one, beta * means[:2].sum(0)[None]), (found.two, beta * means[:2])):
        drawn = (draw(means, covariances, queries, 20_000)[:, :1] < points).mean(axis=0)
        assert np.abs(law.weight_below(points, 0) - drawn).max() < near + 0.005 * (alpha > 0)


def test_without_noise_nothing_is_random() -> None:
    law = robustness(np.eye(3), np.zeros((3, 3)), [[9.0, 9, 0]], (0, 1))
    assert (law.wrong, law.wrong_error) == (0, 0)
    expected = softmax(np.array([9.0, 9, 0]))
    np.testing.assert_allclose(law.weights, expected, atol=1e-14)
    np.testing.assert_allclose(law.weights_covariance, np.zeros((3, 3)), atol=1e-14)
    np.testing.assert_array_equal(law.weight_below([0.4, 0.6], 0), [0, 1])


def test_a_seed_gives_the_same_points() -> None:
    means = np.eye(3)
    covariances = noisy_covariances(means, 0.1, 0)
    wrong = [robustness(means, covariances, 5 * means[:2], (0, 1), seed=s).wrong for s in (4, 4, 5)]
    assert wrong[0] == wrong[1] != wrong[2]


def test_bad_input_is_refused() -> None:
    means: Any = np.eye(2)
    fine: Any = np.zeros((2, 2))
    for covariances, queries, pair in (
        (np.zeros((3, 2, 2)), means, (0, 1)),
        (np.array([[0.0, 1], [0, 0]]), means, (0, 1)),
        (-np.eye(2), means, (0, 1)),
        (fine, np.eye(3), (0, 1)),
        (fine, means, (0, 0)),
        (fine, means, (0, 1, 1)),
        (fine, means, (0, 2)),
    ):
        with pytest.raises(UsageError):
            robustness(means, covariances, queries, pair)
    for bad in (
        lambda: robustness(means, fine, means, (0, 1), tolerance=0.5),
        lambda: noisy_covariances(means, -1.0, 0),
    ):
        with pytest.raises(UsageError):
            bad()
