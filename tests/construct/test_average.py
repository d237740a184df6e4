"""average: equal weights, the supremum against its dual, brute force in the plane and in space."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import null_space

from attnlab.construct import Construction, average, select
from attnlab.core.errors import UsageError
from tests.construct.brute_force import directions, entropy, softmax
from tests.construct.cvxpy_reference import most_entropy, shortest_norm

Array = NDArray[np.float64]
SQUARE = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])


def projected(keys: Array, members: list[int]) -> Array:
    """The other keys relative to S, in the complement of S's differences."""
    rest = [i for i in range(len(keys)) if i not in members]
    first = keys[members[0]]
    across = keys[members[1:]] - first
    free = null_space(across) if len(across) and across.any() else np.eye(keys.shape[1])
    return (keys[rest] - first) @ free


def holds(keys: Array, members: list[int], found: Construction, weight: float | None) -> None:
    """Everything an answer claims, from the definitions alone."""
    json.dumps(found.as_json(), allow_nan=False)
    assert found.query is not None
    assert found.weights is not None
    assert found.certificate is not None
    scores = (keys - keys[members[0]]) @ found.query
    rounding = 1e-15 * keys.shape[1] * (1 + float(np.abs(scores).max()))
    assert found.weights == pytest.approx(softmax(scores), abs=max(rounding, 1e-14))
    assert np.ptp(found.weights[members]) <= max(rounding, 1e-13)
    total, supremum = found.weights[members].sum(), found.also["supremum"]
    assert total <= supremum + 1e-12
    if found.feasible and weight is not None:
        assert total >= weight - 1e-12
    if not found.feasible:
        lam = np.asarray(found.certificate["lambda"])
        assert lam.min() >= 0
        assert lam[members].max() == 0
        assert math.fsum(lam) == pytest.approx(1, abs=1e-12)
        a = np.asarray(found.certificate.get("members", [1.0]))
        assert math.fsum(a) == pytest.approx(1, abs=1e-9)
        size = float(np.abs(keys - keys[members[0]]).max()) * (1 + float(np.abs(a).max()))
        meet = lam @ keys - a @ keys[members]  # one point in aff(S) and in conv(rest)
        assert np.abs(meet).max() <= 1e-9 * size
        share = len(members) / (len(members) + math.exp(entropy(lam)))
        assert supremum == pytest.approx(share, rel=1e-9)
        assert total >= supremum - (1e-9 if found.attained else 1.001e-3)


def test_orthonormal_keys_have_a_closed_form() -> None:
    """Total w on m of n orthonormal keys: lead L = ln((n-m) w / (m (1-w))), split evenly."""
    n, m, weight = 11, 3, 0.95
    found = average(np.eye(n), [1, 4, 7], weight)
    lead = math.log((n - m) * weight / (m * (1 - weight)))
    assert found.norm == pytest.approx(lead * math.sqrt(m * (n - m) / n), rel=1e-12)
    assert found.margin == pytest.approx(lead)
    assert found.certificate is not None
    assert found.certificate["norm_bound"] == pytest.approx(found.norm, rel=1e-9)
    holds(np.eye(n), [1, 4, 7], found, weight)


def test_without_a_weight_the_total_tends_to_one() -> None:
    found = average(SQUARE, [0, 2])
    assert (found.feasible, found.attained) == (True, False)
    assert found.also["supremum"] == 1
    assert found.also["total"] == pytest.approx(0.999, abs=1e-12)
    assert found.certificate is not None
    apart = SQUARE @ found.certificate["separation"]
    assert apart[0] == pytest.approx(apart[2], abs=1e-15)
    assert min(apart[[0, 2]]) - max(apart[[1, 3]]) == pytest.approx(
        found.certificate["separation_gap"]
    )
    lengths = {row["weight"]: row["norm"] for row in found.also["cost"]}
    for weight, length in lengths.items():  # ln(w / (1 - w)) apart, over a lead of sqrt(2)
        assert length == pytest.approx(math.log(weight / (1 - weight)) / math.sqrt(2), abs=1e-9)


def test_the_two_diagonals_of_a_square_cross() -> None:
    found = average(SQUARE, [0, 1])
    assert (found.feasible, found.attained) == (False, True)
    assert found.certificate is not None
    assert found.certificate["best_weight"] == pytest.approx(0.5)
    assert found.certificate["checked"] == "exact"
    holds(SQUARE, [0, 1], found, None)
    assert average(SQUARE, [0, 1], 0.5).feasible
    assert not average(SQUARE, [0, 1], 0.51).feasible


def test_a_key_on_the_segment_keeps_its_share_for_ever() -> None:
    keys = np.array([[1.0, 0], [-1, 0], [0.5, 0], [0, 1]])
    found = average(keys, [0, 1])
    assert (found.feasible, found.attained) == (False, False)
    assert found.also["supremum"] == pytest.approx(2 / 3)
    holds(keys, [0, 1], found, None)
    assert average(keys, [0, 1], 0.66).feasible
    assert not average(keys, [0, 1], 2 / 3).feasible


def test_all_keys_are_averaged_exactly_by_nothing() -> None:
    keys = np.random.default_rng(0).standard_normal((7, 3))
    found = average(keys, range(7), values=np.eye(7))
    assert (found.feasible, found.attained, found.norm) == (True, True, 0.0)
    assert found.output == pytest.approx(np.full(7, 1 / 7), abs=0)


def test_a_set_that_spans_everything_leaves_only_the_zero_query() -> None:
    keys = np.random.default_rng(1).standard_normal((7, 2))
    found = average(keys, [0, 1, 2])
    assert (found.feasible, found.attained, found.norm) == (False, True, 0.0)
    assert found.also["supremum"] == pytest.approx(3 / 7)
    holds(keys, [0, 1, 2], found, None)


def test_one_member_is_a_selection() -> None:
    keys = np.random.default_rng(2).standard_normal((13, 5))
    for index in range(5):
        one, other = average(keys, [index], 0.9), select(keys, index, 0.9)
        assert one.feasible == other.feasible
        assert one.norm == pytest.approx(other.norm)


@pytest.mark.parametrize(("h", "count"), [(2, 720), (3, 1500)])
@pytest.mark.parametrize("seed", range(4))
def test_no_query_of_a_grid_gives_more_with_equal_weights(h: int, count: int, seed: int) -> None:
    """Along every direction of the complement (a line in the plane, a circle in space)."""
    rng = np.random.default_rng(seed)
    keys = np.round(rng.standard_normal((7, h)), 1)
    members = [0, 3]
    found = average(keys, members)
    free = null_space((keys[3] - keys[0])[None])
    ways = [free[:, 0], -free[:, 0]] if h == 2 else [free @ w for w in directions(2, count)[0]]
    best = 0.0
    for way in ways:
        for length in np.geomspace(1e-2, 1e3, 61):
            weights = softmax(length * (keys @ way))
            best = max(best, float(weights[members].sum()))
    assert best <= found.also["supremum"] + 1e-9  # equal to rounding of scores up to 1e3
    # The grid's steps are 8 % in length and half a degree: near an optimum that is second order.
    assert best >= found.also["supremum"] - 0.02


@st.composite
def problems(draw: st.DrawFn) -> tuple[Array, list[int]]:
    n, h = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    cells = st.lists(st.integers(-2, 2), min_size=h, max_size=h)
    keys = np.array(draw(st.lists(cells, min_size=n, max_size=n)), dtype=float)
    members = draw(st.sets(st.integers(0, n - 1), min_size=1))
    return keys * 10.0 ** draw(st.sampled_from([-8, 0, 0, 8])), sorted(members)


@given(problem=problems(), weight=st.sampled_from([None, 1e-6, 0.4, 0.9, 1 - 1e-12]))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_every_small_set_is_answered_and_proven(
    problem: tuple[Array, list[int]], weight: float | None
) -> None:
    keys, members = problem
    found = average(keys, members, weight)
    assert "undecided" not in found.also
    assert found.certificate is not None
    assert found.certificate["checked"] == "exact"
    holds(keys, members, found, weight)


@pytest.mark.parametrize("seed", range(16))
def test_a_second_solver_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, h, m = [(7, 2, 2), (11, 3, 2), (13, 5, 3), (7, 5, 4)][seed % 4]
    keys = rng.standard_normal((n, h))
    if seed % 3 == 0:
        keys = np.round(keys)
    members = sorted(rng.choice(n, m, replace=False).tolist())
    rows = projected(keys, members)
    rows = np.where(np.abs(rows) < 1e-13, 0, rows) if rows.size else np.zeros((n - m, 1))
    found, best = average(keys, members), most_entropy(rows)
    supremum = 1.0 if best is None else m / (m + math.exp(best))
    assert found.also["supremum"] == pytest.approx(supremum, abs=1e-5)  # clarabel's precision
    weight = 0.9 * supremum
    other = shortest_norm(rows, math.log(m) + math.log(1 / weight - 1))
    assert average(keys, members, weight).norm == pytest.approx(other, rel=1e-4, abs=1e-4)


def test_members_are_checked() -> None:
    for wrong in ([], [0, 0], [4], [-1], [0.5]):
        with pytest.raises(UsageError):
            average(SQUARE, wrong)
    with pytest.raises(UsageError):
        average(SQUARE, [0], 1.0)


def test_large_sets() -> None:
    keys = np.random.default_rng(3).standard_normal((1009, 101))
    found = average(keys, range(5), 0.99)
    assert found.feasible
    assert found.query is not None
    assert found.weights is not None
    assert np.ptp(found.weights[:5]) < 1e-13
    rows = projected(keys, list(range(5)))
    p = softmax((keys[5:] - keys[0]) @ found.query)
    bound = (entropy(p) - math.log(5 * (1 / 0.99 - 1))) / np.linalg.norm(p @ rows)
    assert found.norm == pytest.approx(bound, rel=1e-9)
