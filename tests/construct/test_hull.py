"""hull.py: inside, on a face or outside, told apart on shapes where it is known, at any scale."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from attnlab.construct.hull import infimum, maximise_entropy
from attnlab.construct.numerics import orthonormal_basis
from tests.construct.brute_force import entropy
from tests.construct.cvxpy_reference import most_entropy

Array = NDArray[np.float64]

CUBE = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))


@pytest.mark.parametrize(
    ("place", "kind", "corners"),
    [
        ((0.0, 0.0, 0.0), "inside", 8),
        ((0.3, -0.2, 0.9), "inside", 8),
        ((1.0, 0.0, 0.0), "face", 4),
        ((1.0, 0.5, -0.25), "face", 4),
        ((1.0, 1.0, 0.5), "face", 2),
        ((1.0, 1.0, 1.0), "face", 1),
        ((1.0, 1.0, 1.001), "outside", 0),
        ((1 + 1e-9, 0.0, 0.0), "outside", 0),
        ((1 - 1e-9, 0.0, 0.0), "inside", 8),
        ((5.0, 5.0, 5.0), "outside", 0),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_places_in_a_cube(
    place: tuple[float, float, float], kind: str, corners: int, turned: bool
) -> None:
    rows = (CUBE - np.array(place)) / 4
    if (
        turned
    ):  # which rounds a key off its face by some eps: that is no reason to change the answer
        rows = rows @ np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    found = infimum(rows)
    assert (found.kind, int(found.face.sum()), found.sure) == (kind, corners, True)
    if kind == "outside":
        assert found.direction is not None
        assert (rows @ found.direction).max() < 0
        return
    # Coordinates of a cube are independent at the most entropic point: a closed form.
    shares = [(1 + x) / 2 for x in place]
    expected = sum(entropy(np.array([x, 1 - x])) for x in shares)
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert entropy(found.weights) == pytest.approx(expected, abs=1e-9)
    assert np.abs(found.weights @ rows).max() < 1e-14
    if kind == "face":
        assert found.direction is not None
        moves = rows @ found.direction
        assert np.abs(moves[found.face]).max() < 1e-14
        assert moves[~found.face].max() < 0


@pytest.mark.parametrize("seed", range(40))
def test_a_step_that_is_only_rounding_off_its_face_is_no_proof(seed: int) -> None:
    """0 is 1e-9 beyond a face: its four keys span everything, so nothing is orthogonal to them."""
    rows = (CUBE - np.array((1 + 1e-9, 0.0, 0.0))) / 4
    turn = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
    found = infimum(rows @ turn)
    assert found.kind == "outside" and found.direction is not None
    assert (rows @ turn @ found.direction).max() < 0


def test_a_face_of_a_face_is_found() -> None:
    """0 on an edge; row i ends in -1 at place c, so u_c >> u_(c-1) >> ... lowers every other."""
    rng = np.random.default_rng(1)
    rows = np.zeros((10, 5))
    rows[0, 0], rows[1, 0] = 1.0, -2.0
    for i in range(2, 10):
        place = 1 + (i - 2) // 2
        rows[i, :place] = 3 * rng.standard_normal(place)
        rows[i, place] = -1.0
    found = infimum(rows / 4)
    assert found.kind == "face"
    assert found.weights[0] == pytest.approx(2 / 3)
    assert found.weights[1] == pytest.approx(1 / 3)
    assert found.direction is not None
    assert (rows[~found.face] @ found.direction).max() < 0


@pytest.mark.parametrize("seed", range(12))
def test_values_agree_with_a_second_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((13, 3))
    if seed % 2:
        rows = np.round(rows)
        rows[0] = -rows[1]
    rows = rows / 8
    found, other = infimum(rows), most_entropy(rows)
    if other is None:
        assert found.kind == "outside"
    else:
        assert found.value == pytest.approx(other, abs=1e-5)  # clarabel's, near a face


@pytest.mark.parametrize("spread", [1e2, 1e4, 1e6])
def test_rows_of_very_different_lengths(spread: float) -> None:
    """0 = sum lambda_i d_i stays true when rows are stretched and lambda shrunk: still inside."""
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((11, 3))
    rows[0] = -(rows[1:] * rng.uniform(0.5, 2, (10, 1))).sum(axis=0)
    rows *= spread ** rng.uniform(-1, 0, (11, 1))
    found = infimum(rows / np.linalg.norm(rows, axis=1).max())
    assert found.kind == "inside"
    assert found.sure
    pull = np.linalg.norm(found.weights @ rows)
    assert pull < 1e-12 * (found.weights @ np.linalg.norm(rows, axis=1))
    scores = rows @ found.query
    assert np.ptp(np.log(found.weights) - scores / np.linalg.norm(rows, axis=1).max()) < 1e-6


def test_newton_on_weights_keeps_the_equations_and_ends_at_the_maximum() -> None:
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((17, 3))
    start = rng.dirichlet(np.ones(17))
    rows -= start @ rows
    found, q = maximise_entropy(rows, start * rng.uniform(0.999, 1.001, 17))  # a start that misses
    assert np.abs(found @ rows).max() < 1e-13
    assert entropy(found) >= entropy(start)
    assert np.ptp(np.log(found) - rows @ q) < 1e-8  # log lambda = d . q - nu: the maximum
    assert entropy(found) == pytest.approx(infimum(rows / 8).value, abs=1e-10)


def test_basis_spans_rows_of_any_length() -> None:
    rows = np.array([[1e8, 0, 0], [0, 1e-8, 0], [1e8, 1e-8, 0], [0, 0, 0]])
    span = orthonormal_basis(rows)
    assert span.shape == (3, 2)
    assert np.abs(span[2]).max() < 1e-15


def test_all_zero_rows_are_a_flat_function() -> None:
    found = infimum(np.zeros((5, 3)))
    assert (found.kind, found.value) == ("inside", pytest.approx(math.log(5)))
