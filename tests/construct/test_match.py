"""match: moments, the dual bound, faces, exactness; never worse than least squares."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnlab.construct import Construction, match
from attnlab.core.errors import UsageError
from tests.construct.brute_force import directions, entropy, softmax
from tests.construct.cvxpy_reference import most_entropy

Array = NDArray[np.float64]
SQUARE = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])


def divergence(p: Array, weights: Array) -> float:
    return math.fsum(float(a) * math.log(a / b) for a, b in zip(p, weights, strict=True) if a > 0)


def holds(keys: Array, p: Array, found: Construction, scale: float = 1.0) -> None:
    """Everything an answer claims, from the definitions alone."""
    json.dumps(found.as_json(), allow_nan=False)
    assert found.query is not None
    assert found.weights is not None
    assert found.certificate is not None
    assert found.kl is not None
    apart = scale * ((keys - keys[int(np.argmax(p))]) @ found.query)
    weights = softmax(apart)
    assert found.weights == pytest.approx(weights, abs=1e-12)
    assert found.kl == pytest.approx(divergence(p, weights), abs=1e-12)
    lam = np.asarray(found.certificate["lambda"])
    assert lam.min() >= 0
    assert math.fsum(lam) == pytest.approx(1, abs=1e-12)
    size = float(np.abs(keys - keys[0]).max()) or 1.0
    assert np.abs((lam - p) @ (keys - keys[0])).max() <= 1e-9 * size
    bound = entropy(lam) - entropy(p)  # no query is below it
    assert found.also["infimum"] == pytest.approx(max(0.0, bound), abs=1e-9)
    if found.attained:
        assert found.kl == pytest.approx(bound, abs=1e-9)
        assert np.abs((weights - p) @ (keys - keys[0])).max() <= 1e-8 * size
    else:
        assert bound - 1e-12 <= found.kl <= bound + 1e-3 + 1e-9
        off = np.setdiff1d(np.arange(len(p)), found.certificate["face"])
        scores = keys @ np.asarray(found.certificate["direction"])
        assert scores[off].max() < scores[p > 0].min()
        assert lam[off].max() == 0
    assert found.feasible == (found.also["infimum"] <= 1e-6)
    assert found.kl <= found.also["least_squares"]["kl"] + (0 if found.attained else 1e-3) + 1e-12
    beside = found.also["least_squares"]
    naive = softmax(scale * (keys @ beside["query"]))
    assert beside["weights"] == pytest.approx(naive, abs=1e-12)
    assert beside["kl"] == pytest.approx(divergence(p, naive), abs=1e-9)
    assert beside["total_variation"] == pytest.approx(0.5 * np.abs(naive - p).sum(), abs=1e-12)


def test_independent_keys_match_every_positive_target_exactly() -> None:
    rng = np.random.default_rng(0)
    keys, p = rng.standard_normal((7, 11)), rng.dirichlet(np.ones(7))
    found = match(keys, p, "sqrt")
    assert found.also["exact"]
    assert found.weights == pytest.approx(p, abs=1e-12)
    # The shortest of all solutions: nothing of it is orthogonal to the keys' differences.
    assert found.query is not None
    across = keys - keys[0]
    inside = across.T @ np.linalg.lstsq(across.T, found.query, rcond=None)[0]
    assert inside == pytest.approx(found.query, abs=1e-12)
    holds(keys, p, found, 1 / math.sqrt(11))


@pytest.mark.parametrize("seed", range(8))
def test_what_a_query_makes_is_found_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys, query = rng.standard_normal((13, 3)), 2 * rng.standard_normal(3)
    found = match(keys, softmax(keys @ query))
    assert found.also["exact"]
    assert found.query == pytest.approx(query, abs=1e-9)


@pytest.mark.parametrize(("h", "count"), [(2, 360), (3, 400)])
@pytest.mark.parametrize("seed", range(4))
def test_no_query_of_a_grid_is_nearer(h: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((7, h))
    p = rng.dirichlet(np.ones(7))
    if seed % 2:
        p[:3] = 0
        p /= p.sum()
    found = match(keys, p)
    best = min(
        divergence(p, softmax(length * (keys @ way)) + 1e-300)
        for way in directions(h, count)[0]
        for length in np.geomspace(1e-3, 40, 80)
    )
    assert best >= found.also["infimum"] - 1e-12
    assert found.kl is not None
    holds(keys, p, found)


@pytest.mark.parametrize(
    ("p", "attained", "infimum", "face"),
    [
        ([0.5, 0.5, 0, 0], True, math.log(2), None),  # the centre: attention is uniform there
        ([0.5, 0, 0.5, 0], False, 0.0, [0, 2]),  # an edge
        ([1, 0, 0, 0], False, 0.0, [0]),  # a corner
        ([0.25] * 4, True, 0.0, None),
    ],
)
def test_a_square(p: list[float], attained: bool, infimum: float, face: list[int] | None) -> None:
    found = match(SQUARE, p)
    assert found.attained is attained
    assert found.also["infimum"] == pytest.approx(infimum, abs=1e-12)
    assert found.certificate is not None
    if face is not None:
        assert list(found.certificate["face"]) == face
        assert found.kl == pytest.approx(infimum + 1e-3, rel=1e-9)
    holds(SQUARE, np.array(p, dtype=float), found)


def test_the_query_returned_on_a_face_is_the_shortest_within_a_thousandth() -> None:
    """Two of n orthonormal keys: KL = ln(1 + (n-2)/2 e^-L), and L costs sqrt(2 (n-2) / n)."""
    n = 7
    p = np.zeros(n)
    p[:2] = 0.5
    lead = math.log((n - 2) / 2 / math.expm1(1e-3))
    assert match(np.eye(n), p).norm == pytest.approx(lead * math.sqrt(2 * (n - 2) / n), rel=1e-9)


def test_a_key_between_two_others_takes_its_part() -> None:
    keys = np.array([[1.0, 0], [-1, 0], [0.5, 0], [0, 1]])
    p = np.array([0.5, 0.5, 0, 0])
    found = match(keys, p)
    assert (found.feasible, found.attained) == (False, False)
    assert found.certificate is not None
    assert list(found.certificate["face"]) == [0, 1, 2]
    holds(keys, p, found)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Array, Array]:
    n, h = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    cells = st.lists(st.integers(-2, 2), min_size=h, max_size=h)
    keys = np.array(draw(st.lists(cells, min_size=n, max_size=n)), dtype=float)
    parts = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n).filter(any))
    p = np.array(parts) / sum(parts)
    return keys * 10.0 ** draw(st.sampled_from([-8, 0, 0, 8])), p


@given(problem=problems())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_every_small_problem_is_answered_and_proven(problem: tuple[Array, Array]) -> None:
    keys, p = problem
    found = match(keys, p)
    assert "undecided" not in found.also
    holds(keys, p, found)


@pytest.mark.parametrize("seed", range(16))
def test_the_dual_solved_elsewhere_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, h = [(7, 2), (11, 3), (13, 5), (5, 1)][seed % 4]
    keys = rng.standard_normal((n, h))
    if seed % 3 == 0:
        keys = np.round(keys)
    p = rng.dirichlet(np.ones(n))
    if seed % 2:
        p[rng.random(n) < 0.5] = 0
        p[0] += 0.1
        p /= p.sum()
    scale = [1.0, 0.4][seed % 2]
    found = match(keys, p, scale)
    other = most_entropy(keys - p @ keys)
    assert other is not None
    # clarabel is off by up to 1e-5 where weights of the optimum are near zero.
    assert found.also["infimum"] == pytest.approx(max(0.0, other - entropy(p)), abs=2e-5)
    holds(keys, p, found, scale)


def test_tiny_weights_of_a_target() -> None:
    rng = np.random.default_rng(3)
    keys = rng.standard_normal((5, 7))
    for tiny in (1e-6, 1e-10, 1e-14):
        p = np.array([0.5, 0.3, 0.2 - 2 * tiny, tiny, tiny])
        found = match(keys, p)
        assert found.attained
        assert found.kl is not None
        assert found.kl < 1e-12
    gone = match(keys, [0.5, 0.3, 0.2, 1e-20, 0.0])  # K^T p rounds it away
    assert gone.attained is False


def test_large_sets() -> None:
    rng = np.random.default_rng(5)
    keys, p = rng.standard_normal((1009, 61)), rng.dirichlet(np.ones(1009))
    found = match(keys, p)
    assert found.attained
    assert found.residual is not None
    assert found.residual < 1e-13
    holds(keys, p, found)


def test_targets_are_checked() -> None:
    for wrong in ([0.5, 0.5], [0.5, 0.6, 0, 0], [1.5, -0.5, 0, 0], [math.nan, 0, 0, 1], "x"):
        with pytest.raises(UsageError):
            match(SQUARE, wrong)
    assert match(SQUARE, [[0.25], [0.25], [0.25], [0.25]]).norm == 0  # a column is a vector
