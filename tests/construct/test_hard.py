"""Hard attention: outputs by hand, Jacobians by formula, autograd and differences."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.construct import hard_attention, jacobian_norms
from attnlab.core.errors import UsageError

KEYS = np.array([[-3.0, 0, 1], [1, 1, -1], [0, 1, 1], [1, 0, 0], [0.5, 0.5, 0.5]])
VALUES = np.array([[2.0, 0], [1, 4], [0, -1], [1, 0], [3, 3]])
QUERY = np.array([1.0, 2.0, -1.0])  # scores -4, 4, 1, 1, 1: gap 3


def by_formula(temperature: float, scale: float) -> tuple[float, float, float]:
    """Norms of the softmax's Jacobians, written out."""
    scores = scale / temperature * (KEYS @ QUERY)
    w = np.exp(scores - scores.max())
    w /= w.sum()
    output = w @ VALUES
    rate = scale / temperature
    query = rate * np.einsum("i,ic,id->cd", w, VALUES - output, KEYS)
    keys = rate * np.einsum("i,ic,d->cid", w, VALUES - output, QUERY)
    # d output_c / d value_ic' = w_i for c = c': one copy of w for each entry of the output.
    return (
        float(np.linalg.norm(query)),
        float(np.linalg.norm(keys)),
        float(np.linalg.norm(w)) * math.sqrt(VALUES.shape[1]),
    )


def test_the_highest_score_wins() -> None:
    found = hard_attention(KEYS, QUERY, VALUES)
    assert (found.index, found.ties, found.gap) == (1, (1,), 3.0)
    np.testing.assert_array_equal(found.output, [1, 4])
    np.testing.assert_array_equal(found.weights, [0, 1, 0, 0, 0])
    assert hard_attention(KEYS, QUERY, VALUES, "sqrt").gap == pytest.approx(3 / math.sqrt(3))


def test_ties_are_named_and_the_first_is_used() -> None:
    found = hard_attention(KEYS, [0.0, 0, 0], VALUES)
    assert (found.index, found.ties, found.gap) == (0, (0, 1, 2, 3, 4), None)
    # 0.1 + 0.2 and 0.3 are one score, though not one double.
    tied = hard_attention([[0.1, 0.2], [0.3, 0.0], [0.0, 0.0]], [1.0, 1.0], np.eye(3))
    assert tied.ties == (0, 1) and tied.index == 0


@pytest.mark.parametrize("temperature", [3.0, 1.0, 0.3])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_softmax_has_the_gradients_of_its_formula(temperature: float, scale: float) -> None:
    found = jacobian_norms(KEYS, QUERY, VALUES, "softmax", temperature, scale)
    query, keys, values = by_formula(temperature, scale)
    assert (found.query, found.keys, found.values) == pytest.approx(
        (query, keys, values), rel=1e-12
    )
    # A step moves a score by 1e-5 T: the third derivative leaves 1e-10 of the slope's own scale
    # (output range 5 / T times 3), rounding the floor a few times over.
    near = 1e-10 * 5 * 3 / temperature + 10 * found.floor
    assert found.query_difference == pytest.approx(query, abs=near)
    assert found.keys_difference == pytest.approx(keys, abs=near)
    assert found.values_difference == pytest.approx(values, abs=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_argmax_trains_the_values_only(temperature: float) -> None:
    found = jacobian_norms(KEYS, QUERY, VALUES, "argmax", temperature)
    assert (found.query, found.keys) == (0.0, 0.0)
    assert (found.query_difference, found.keys_difference) == (0.0, 0.0)
    assert found.values == pytest.approx(math.sqrt(2), rel=1e-15)  # one 1 for each entry
    assert found.values_difference == pytest.approx(math.sqrt(2), abs=1e-9)


def test_straight_through_reports_slopes_the_output_does_not_have() -> None:
    soft = jacobian_norms(KEYS, QUERY, VALUES, "softmax", 0.7)
    through = jacobian_norms(KEYS, QUERY, VALUES, "straight-through", 0.7)
    assert (through.query, through.keys) == pytest.approx((soft.query, soft.keys), rel=1e-13)
    assert (through.query_difference, through.keys_difference) == (0.0, 0.0)
    assert through.values == pytest.approx(math.sqrt(2), rel=1e-13)


def test_the_softmax_gradient_dies_like_exp_of_the_gap_over_t() -> None:
    """Keys 2, 3 and 4 are all 3 behind: slope -> (1/T) e^(-3/T) |sum (v_i - v_1)(k_i - k_1)^T|."""
    rest = [2, 3, 4]
    limit = float(np.linalg.norm((VALUES[rest] - VALUES[1]).T @ (KEYS[rest] - KEYS[1])))
    for temperature in (0.2, 0.1, 0.05):
        found = jacobian_norms(KEYS, QUERY, VALUES, "softmax", temperature)
        lead = math.exp(-3 / temperature) / temperature * limit
        # The next order is e^(-3/T) again, times a few keys and values below 5.
        assert found.query == pytest.approx(lead, rel=100 * math.exp(-3 / temperature) + 1e-10)


def test_at_a_tie_the_argmax_jumps() -> None:
    """No slope exists there: the difference grows as the step shrinks, autograd still says 0."""
    found = jacobian_norms([[1.0, 0], [0, 1]], [1.0, 1.0], [[0.0], [1.0]], "argmax", 1.0)
    finer = jacobian_norms([[1.0, 0], [0, 1]], [1.0, 1.0], [[0.0], [1.0]], "argmax", 0.1)
    assert found.query == 0 and found.query_difference > 1e4
    assert finer.query_difference == pytest.approx(10 * found.query_difference, rel=1e-6)


@settings(max_examples=25, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1.0, 1e6]))
def test_autograd_and_differences_agree_on_random_keys(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    keys, query, values = rng.normal(size=(3, 2)), rng.normal(size=2), rng.normal(size=(3, 2))
    found = jacobian_norms(size * keys, query / size, values, "softmax", 1.0)
    bend = float(np.abs(values).max()) * float(np.abs(size * keys).max())
    near = 1e-9 * bend + 10 * found.floor
    assert found.query_difference == pytest.approx(found.query, abs=near)
    bend = float(np.abs(values).max()) * float(np.abs(query / size).max())
    assert found.keys_difference == pytest.approx(found.keys, abs=1e-9 * bend + 10 * found.floor)


def test_nothing_is_left_in_the_global_generators() -> None:
    before = torch.random.get_rng_state()
    jacobian_norms(KEYS, QUERY, VALUES, "straight-through")
    assert torch.equal(before, torch.random.get_rng_state())


def test_bad_input_is_refused() -> None:
    with pytest.raises(UsageError, match="did you mean 'argmax'"):
        jacobian_norms(KEYS, QUERY, VALUES, "argmx")
    for temperature in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(UsageError):
            jacobian_norms(KEYS, QUERY, VALUES, "softmax", temperature)
    with pytest.raises(UsageError):
        hard_attention(KEYS, QUERY[:2], VALUES)
    with pytest.raises(UsageError):
        hard_attention(KEYS, QUERY, None)
