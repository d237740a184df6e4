"""q = beta (k_a + k_b): the closed form, every beta of a fine grid, and the limits."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.construct import attention_weights, average_scale
from attnlab.core.errors import UsageError


def lower_weight(keys: np.ndarray, beta: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """min(w_0, w_1) along the ray, from the definition."""
    scores = scale * beta[:, None] * (keys @ (keys[0] + keys[1]))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights[:, :2].min(axis=1)


@pytest.mark.parametrize("n", [3, 7, 101])
@pytest.mark.parametrize("tolerance", [0.2, 0.01, 1e-6])
@pytest.mark.parametrize("scale", ["1", "sqrt", 0.3])
def test_orthonormal_keys_have_a_closed_form(n: int, tolerance: float, scale: str | float) -> None:
    keys = np.linalg.qr(np.random.default_rng(n).normal(size=(n, n)))[0]
    answer = average_scale(keys, 0, 1, tolerance, scale)
    factor = 1 / math.sqrt(n) if scale == "sqrt" else float(scale)
    beta = math.log((n - 2) * (1 - tolerance) / (2 * tolerance)) / factor
    assert answer.feasible and answer.weights is not None
    # log F is kept 1e-13 inside; d log F / d beta = -(1 - 1/F) scale, 1 - 1/F about 2 tol.
    near = 2e-13 / (tolerance * factor) + 1e-12 * beta
    assert answer.also["beta"] == pytest.approx(max(beta, 0), abs=near)
    assert answer.also["closed_form"] == pytest.approx(max(beta, 0), rel=1e-12)
    total = answer.weights[:2].sum()
    assert total == pytest.approx(max(1 - tolerance, 2 / n), abs=1e-12)


def test_without_a_scale_it_is_no_average() -> None:
    """The answer q = k_a + k_b: of five orthonormal keys the pair gets 64 %."""
    answer = average_scale(np.eye(5), 0, 1)
    one = answer.also["at_one"]
    assert not one["averages"]
    assert one["total"] == pytest.approx(2 * math.e / (2 * math.e + 3), rel=1e-14)
    assert answer.also["beta"] == pytest.approx(math.log(3 * 99 / 2), abs=2e-11)  # 1e-13 / 2 tol


@pytest.mark.parametrize("tolerance", [0.3, 0.05, 0.01])
def test_no_smaller_beta_of_a_grid_does_it_and_where_we_say_none_none_does(
    tolerance: float,
) -> None:
    verdicts = set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        keys = rng.normal(size=(5, 3))
        if seed % 2:
            keys /= np.linalg.norm(keys, axis=1, keepdims=True)
        answer = average_scale(keys, 0, 1, tolerance, 0.7)
        beta = np.linspace(0, 80, 40_001)
        good = lower_weight(keys, beta, 0.7) >= (1 - tolerance) / 2
        verdicts.add(answer.feasible)
        if answer.feasible:
            found = answer.also["beta"]
            assert answer.weights is not None
            assert answer.weights[:2].min() >= (1 - tolerance) / 2 - 1e-13
            assert not good[beta < found - 1e-9].any()
        else:
            assert not good.any()
            assert answer.certificate is not None
            best = lower_weight(keys, beta, 0.7).max()
            assert best <= answer.certificate["largest_lower_weight"] + 1e-13
    assert verdicts == {True, False}


def test_unequal_lengths_are_refused_with_their_limit() -> None:
    keys = np.array([[1.0, 0], [0, 1.1], [-1, -1]])
    answer = average_scale(keys, 0, 1)
    assert not answer.feasible and answer.attained and "lengths differ" in answer.why
    np.testing.assert_array_equal(answer.also["limit_weights"], [0, 1, 0])
    far = attention_weights(keys, 400 * (keys[0] + keys[1]))
    np.testing.assert_allclose(far, answer.also["limit_weights"], atol=1e-30)
    assert answer.certificate is not None
    beta = np.linspace(0, 5, 50_001)
    best = float(lower_weight(keys, beta).max())
    # The grid's best is below the true one by at most curvature * step^2, far less than 1e-8.
    assert answer.certificate["largest_lower_weight"] == pytest.approx(best, abs=1e-8)
    assert abs(answer.certificate["slope_there"]) < 1e-12


def test_a_key_between_the_two_is_in_the_way() -> None:
    keys = np.array([[1.0, 0], [0, 1], [0.5, 0.5], [-1, 0]])
    answer = average_scale(keys, 0, 1)
    assert not answer.feasible and answer.attained is False and "key 2" in answer.why
    np.testing.assert_allclose(answer.also["limit_weights"], np.array([1, 1, 1, 0]) / 3)
    assert answer.weights is not None
    assert 1 / 3 - 1e-3 < answer.weights[0] < 1 / 3


def test_keys_that_cancel_leave_the_zero_query() -> None:
    answer = average_scale([[1.0, 0], [-1, 0], [0, 1]], 0, 1)
    assert not answer.feasible and "sum is zero" in answer.why
    two = average_scale([[1.0, 0], [-1, 0]], 0, 1, values=[[1.0], [3.0]])
    assert two.feasible and two.also["beta"] == 0 and two.output is not None
    assert two.output[0] == 2


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_beta_follows_the_size_of_the_keys(size: float) -> None:
    keys = np.array([[1.0, 0, 0], [0, 1, 0], [0.2, 0.1, 1]])
    plain = average_scale(keys, 0, 1).also["beta"]
    assert average_scale(size * keys, 0, 1).also["beta"] * size**2 == pytest.approx(plain, rel=1e-9)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 3))
def test_whole_number_keys_are_decided_as_a_grid_decides(seed: int, n: int, h: int) -> None:
    """Ties, duplicates and zero keys; a grid of beta up to 60 separates whole-number scores."""
    keys = np.random.default_rng(seed).integers(-2, 3, size=(n, h)).astype(float)
    answer = average_scale(keys, 0, 1, 0.1)
    json.dumps(answer.as_json(), allow_nan=False)
    beta = np.linspace(0, 60, 6001)
    good = lower_weight(keys, beta) >= 0.45
    assert answer.feasible is bool(good.any())
    if answer.feasible:
        assert answer.also["beta"] <= beta[good][0] + 1e-12


def test_bad_input_is_refused() -> None:
    keys: Any = np.eye(3)
    bad: list[tuple[Any, ...]] = [(0, 0), (0, 3), (0, 1, 0.0), (0, 1, "x"), (0, 1, 0.1, -1.0)]
    for arguments in bad:
        with pytest.raises(UsageError):
            average_scale(keys, *arguments)
