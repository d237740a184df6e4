"""The oblique projector: by its equations, by angles from elsewhere, and by ranks in fractions."""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles

from attnlab.construct import extract
from attnlab.core.errors import UsageError


def drawn(seed: int, rows: int, width: int = 11) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, width))


def rank(rows: list[list[int]]) -> int:
    """Gauss in fractions: the definition, without rounding."""
    table = [[Fraction(x) for x in row] for row in rows]
    found = 0
    for column in range(len(table[0])):
        pivot = next((r for r in range(found, len(table)) if table[r][column]), None)
        if pivot is None:
            continue
        table[found], table[pivot] = table[pivot], table[found]
        for r in range(found + 1, len(table)):
            factor = table[r][column] / table[found][column]
            table[r] = [a - factor * b for a, b in zip(table[r], table[found], strict=True)]
        found += 1
    return found


@pytest.mark.parametrize(("ra", "rb"), [(1, 1), (3, 5), (5, 3), (7, 4)])
def test_every_mean_gives_its_first_part_back(ra: int, rb: int) -> None:
    a, b = drawn(1, ra), drawn(2, rb)
    a = np.vstack([a, a[:1] + 2 * a[-1:]])  # one vector too many
    answer = extract(a, b)
    assert answer.feasible and answer.matrix is not None and answer.norm is not None
    rng = np.random.default_rng(3)
    va, vb = rng.normal(size=(13, ra + 1)) @ a, rng.normal(size=(13, rb)) @ b
    # |M| times the rounding of vectors of this length.
    near = 1e-13 * answer.norm * float(np.abs(va).max() + np.abs(vb).max())
    np.testing.assert_allclose((va + vb) / 2 @ answer.matrix.T, va, atol=near)
    assert answer.residual is not None and answer.residual < 1e-13 * answer.norm


@pytest.mark.parametrize(("ra", "rb"), [(1, 1), (3, 5), (5, 3)])
def test_norm_and_condition_are_those_of_the_angles(ra: int, rb: int) -> None:
    a, b = drawn(4, ra), drawn(5, rb)
    answer = extract(a, b)
    angles = np.sort(subspace_angles(a.T, b.T))
    assert answer.matrix is not None
    values = np.linalg.svd(answer.matrix, compute_uv=False)[:ra]
    assert answer.norm == pytest.approx(2 / np.sin(angles[0]), rel=1e-12)
    assert values[0] == pytest.approx(2 / np.sin(angles[0]), rel=1e-12)
    assert answer.also["condition"] == pytest.approx(values[0] / values[-1], rel=1e-11)
    both = np.hstack([np.linalg.qr(a.T)[0], np.linalg.qr(b.T)[0]])
    assert answer.also["joint_condition"] == pytest.approx(np.linalg.cond(both), rel=1e-11)


def test_the_norm_is_the_least_any_answer_can_have() -> None:
    """Answers differ by a matrix that vanishes on A + B; none of those drawn is shorter."""
    a, b = drawn(6, 2, 7), drawn(7, 3, 7)
    answer = extract(a, b)
    assert answer.matrix is not None and answer.norm is not None
    outside = np.linalg.svd(np.vstack([a, b]))[2][5:]
    rng = np.random.default_rng(8)
    for size in (1e-3, 0.1, 1.0):
        other = answer.matrix + size * rng.normal(size=(7, 2)) @ outside
        assert np.linalg.norm(other, 2) >= answer.norm * (1 - 1e-12)


def test_orthogonal_spans_need_no_more_than_twice_the_projector() -> None:
    basis = np.linalg.qr(drawn(9, 7, 7))[0]
    a, b = basis[:3], basis[3:5]
    answer = extract(3 * a, b)
    assert answer.also["orthogonal"] and answer.matrix is not None
    np.testing.assert_allclose(answer.matrix, 2 * a.T @ a, atol=1e-14)
    assert answer.norm == pytest.approx(2, rel=1e-14)
    assert answer.also["angle_degrees"] == pytest.approx(90)


def test_whole_numbers() -> None:
    """A = x axis, B = diagonal: M (x, y) = (2x - 2y, 0)."""
    answer = extract([[1, 0]], [[1, 1]])
    assert answer.matrix is not None
    np.testing.assert_allclose(answer.matrix, [[2, -2], [0, 0]], atol=1e-15)
    assert answer.norm == pytest.approx(np.sqrt(8), rel=1e-15)
    columns = extract([[1], [0]], [[1], [1]], columns=True)
    assert columns.matrix is not None
    np.testing.assert_array_equal(columns.matrix, answer.matrix)
    vector = extract([1, 0], [1, 1])  # a single vector is a basis of one
    assert vector.matrix is not None
    np.testing.assert_array_equal(vector.matrix, answer.matrix)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(1, 3), st.integers(2, 5))
def test_it_is_impossible_exactly_when_the_ranks_say_so(
    seed: int, ra: int, rb: int, width: int
) -> None:
    """dim(A and B) = rank A + rank B - rank(A, B), counted in fractions."""
    rng = np.random.default_rng(seed)
    a = rng.integers(-2, 3, size=(ra, width))
    b = rng.integers(-2, 3, size=(rb, width))
    shared = rank(a.tolist()) + rank(b.tolist()) - rank([*a.tolist(), *b.tolist()])
    answer = extract(a, b)
    assert answer.feasible is (shared == 0)
    json.dumps(answer.as_json(), allow_nan=False)
    if shared:
        assert answer.certificate is not None
        x = np.asarray(answer.certificate["vector"])
        assert np.linalg.norm(x) == pytest.approx(1)
        np.testing.assert_allclose(answer.certificate["in_a"] @ a, x, atol=1e-12)
        np.testing.assert_allclose(answer.certificate["in_b"] @ b, x, atol=1e-12)
    else:
        assert answer.matrix is not None
        np.testing.assert_allclose(a @ answer.matrix.T / 2, a, atol=1e-11)
        np.testing.assert_allclose(b @ answer.matrix.T, 0 * b, atol=1e-11)


@pytest.mark.parametrize("tilt", [1e-2, 1e-5, 1e-8])
def test_nearly_shared_spans_cost_what_the_angle_says(tilt: float) -> None:
    answer = extract([[1, 0, 0]], [[1, tilt, 0]])
    assert answer.feasible
    # sin(atan tilt), itself computed from entries rounded to eps: relative error eps / tilt.
    sine = tilt / np.hypot(1, tilt)
    assert answer.norm == pytest.approx(2 / sine, rel=1e-15 / tilt + 1e-14)


def test_beyond_rounding_spans_count_as_shared() -> None:
    assert not extract([[1, 0, 0]], [[1, 1e-17, 0]]).feasible
    assert not extract([[1e90, 1e90]], [[1e-90, 1e-90]]).feasible


def test_sizes_of_vectors_do_not_matter() -> None:
    a, b = drawn(10, 3), drawn(11, 4)
    plain = extract(a, b)
    scaled = extract(a * np.array([[1e90], [1e-90], [1.0]]), 1e8 * b)
    assert plain.matrix is not None and scaled.matrix is not None and plain.norm is not None
    np.testing.assert_allclose(scaled.matrix, plain.matrix, atol=1e-12 * plain.norm)


def test_empty_spans() -> None:
    nothing = extract([[0, 0]], [[1, 0]])
    assert nothing.feasible and nothing.matrix is not None
    np.testing.assert_array_equal(nothing.matrix, np.zeros((2, 2)))
    alone = extract([[0, 3]], [[0, 0]])
    assert alone.matrix is not None
    np.testing.assert_allclose(alone.matrix, [[0, 0], [0, 2]], atol=1e-15)


def test_bad_input_is_refused() -> None:
    for a, b in (
        ([[1, 2]], [[1, 2, 3]]),
        (np.zeros((0, 2)), [[1, 2]]),
        ([[1, np.nan]], [[1, 2]]),
        (3.0, [[1.0]]),
    ):
        with pytest.raises(UsageError):
            extract(a, b)
