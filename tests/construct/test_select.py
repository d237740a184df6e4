"""select against closed forms, brute force, the conditions of optimality, and a second solver."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnlab.construct import Construction, select
from attnlab.core.errors import UsageError
from tests.construct.brute_force import directions, entropy, radius, softmax
from tests.construct.cvxpy_reference import most_entropy, shortest_norm, widest_gap

Array = NDArray[np.float64]


def rows_of(keys: Array, index: int, scale: float = 1.0) -> Array:
    return scale * (np.delete(keys, index, axis=0) - keys[index])


def level_of(weight: float) -> float:
    return math.log1p(-weight) - math.log(weight)


def holds(keys: Array, index: int, weight: float, found: Construction, scale: float = 1.0) -> None:
    """Everything an answer claims, from the definitions alone."""
    json.dumps(found.as_json(), allow_nan=False)
    assert found.query is not None
    assert found.weights is not None
    assert found.certificate is not None
    apart = scale * ((keys - keys[index]) @ found.query)  # the same softmax, less cancellation
    # A score of size s carries a rounding error of h s eps; weights move by at most as much.
    rounding = 4e-16 * keys.shape[1] * (1 + float(np.abs(apart).max()))
    np.testing.assert_allclose(found.weights, softmax(apart), atol=max(rounding, 1e-14))
    rows = rows_of(keys, index, scale)
    lam = np.delete(np.asarray(found.certificate.get("lambda", np.zeros(len(keys)))), index)
    if found.feasible:
        assert found.weights[index] >= weight - 1e-12
        assert found.norm == pytest.approx(np.linalg.norm(found.query))
        if found.norm:  # the certificate is a lower bound on every query's norm, and is reached
            bound = (entropy(lam) - level_of(weight)) / np.linalg.norm(lam @ rows)
            assert found.norm == pytest.approx(bound, rel=1e-6)
    else:
        assert min(lam) >= 0
        assert math.fsum(lam) == pytest.approx(1, abs=1e-12)
        size = float(np.abs(rows).max(initial=0.0))
        np.testing.assert_allclose(lam @ rows, 0, atol=1e-9 * size)
        best = found.certificate["best_weight"]
        assert best == pytest.approx(1 / (1 + math.exp(entropy(lam))), rel=1e-9)
        assert best <= weight + 1e-12
        within = 1e-9 if found.attained else 1.001e-3
        assert best - within <= found.weights[index] <= best + 1e-12


@pytest.mark.parametrize("n", [2, 5, 13])
@pytest.mark.parametrize("weight", [0.3, 0.9, 1 - 1e-9])
def test_orthonormal_keys_have_a_closed_form(n: int, weight: float) -> None:
    """q = L (e_j - mean of the others) (n-1)/n, ||q|| = L sqrt((n-1)/n), L = ln((n-1) w/(1-w))."""
    found = select(np.eye(n), 1, weight)
    lead = max(0.0, math.log((n - 1) * weight / (1 - weight)))
    assert found.norm == pytest.approx(lead * math.sqrt((n - 1) / n), rel=1e-12, abs=1e-12)
    if lead:
        wanted = np.full(n, -lead / n)
        wanted[1] = lead * (n - 1) / n
        assert found.query == pytest.approx(wanted, abs=1e-9)
        assert found.margin == pytest.approx(lead)
        assert found.also["max_margin"]["ratio"] == pytest.approx(1)
    holds(np.eye(n), 1, weight, found)


def test_two_keys_on_a_line() -> None:
    found = select([[3.0], [7.0]], 0, 0.99, "sqrt")
    assert found.query == pytest.approx([-math.log(99) / 4])
    assert found.weights == pytest.approx([0.99, 0.01])


@pytest.mark.parametrize(("h", "count"), [(2, 1440), (3, 6000)])
@pytest.mark.parametrize("seed", range(5))
def test_no_direction_of_a_grid_is_shorter(h: int, count: int, seed: int) -> None:
    keys = np.random.default_rng(seed).standard_normal((7, h))
    keys[0] *= 2.5  # outermost, so that it can be selected
    weight = 0.9
    found = select(keys, 0, weight)
    assert found.feasible
    assert found.norm is not None
    rows, level = rows_of(keys, 0), level_of(weight)
    ways, angle = directions(h, count)
    least = min(radius(rows @ way, level, 3 * found.norm) for way in ways)
    assert least >= found.norm * (1 - 1e-9)
    # f has slope ||d|| at most: a direction `angle` away reaches the level as soon as f along q
    # has fallen by the distance between them times the longest row.
    steep = float(np.linalg.norm(rows, axis=1).max())
    extra = next(
        x
        for x in np.geomspace(1e-6, 2, 400)
        if _f(rows, (1 + x) * np.asarray(found.query)) + steep * (1 + x) * found.norm * angle
        <= level
    )
    assert least <= found.norm * (1 + extra)


def _f(rows: Array, q: Array) -> float:
    scores = rows @ q
    return float(scores.max() + np.log(np.exp(scores - scores.max()).sum()))


@pytest.mark.parametrize(("h", "count"), [(2, 360), (3, 500)])
@pytest.mark.parametrize("seed", range(4))
def test_no_query_of_a_grid_beats_the_best_weight(h: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((11, h))
    keys[3] = rng.dirichlet(np.ones(10)) @ np.delete(keys, 3, axis=0)
    found = select(keys, 3, 0.9)
    assert not found.feasible
    assert found.certificate is not None
    assert found.certificate["checked"] == "exact"
    ways, _ = directions(h, count)
    for length in np.geomspace(1e-3, 1e3, 49):
        for way in ways:
            assert softmax(length * (keys @ way))[3] <= found.certificate["best_weight"]
    holds(keys, 3, 0.9, found)


SHAPES = st.tuples(st.integers(1, 7), st.integers(1, 4))


@st.composite
def key_sets(draw: st.DrawFn) -> Array:
    """Small integers: duplicates, collinear keys, zeros, keys on faces and edges all occur."""
    n, h = draw(SHAPES)
    cells = st.integers(-2, 2)
    keys = draw(st.lists(st.lists(cells, min_size=h, max_size=h), min_size=n, max_size=n))
    return np.array(keys, dtype=float) * 10.0 ** draw(st.sampled_from([-8, 0, 0, 8]))


WEIGHTS = [1e-6, 0.2, 0.5, 0.9, 0.99, 1 - 1e-12]


@given(keys=key_sets(), weight=st.sampled_from(WEIGHTS), data=st.data())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_every_small_key_set_is_answered_and_proven(
    keys: Array, weight: float, data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(keys) - 1))
    found = select(keys, index, weight)
    assert found.certificate is not None
    assert found.certificate["checked"] == "exact"
    assert "undecided" not in found.also
    holds(keys, index, weight, found)


@pytest.mark.parametrize("seed", range(24))
def test_a_second_solver_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, h = [(5, 2), (7, 3), (11, 3), (13, 5)][seed % 4]
    keys = rng.standard_normal((n, h))
    if seed % 3 == 0:
        keys = np.round(keys)
    weight, scale = [0.3, 0.9, 0.999][seed % 3], [1.0, 0.37][seed % 2]
    for index in range(2):
        found = select(keys, index, weight, scale)
        assert found.certificate is not None
        other = shortest_norm(rows_of(keys, index, scale), level_of(weight))
        best = most_entropy(rows_of(keys, index, scale))
        # clarabel stops at 1e-8 of its own residuals; near a face that is 1e-5 of the value.
        if found.feasible:
            assert other == pytest.approx(found.norm, rel=1e-4, abs=1e-5)
        else:
            assert best is not None
            share = 1 / (1 + math.exp(best))
            assert found.certificate["best_weight"] == pytest.approx(share, abs=1e-5)
        holds(keys, index, weight, found, scale)


@pytest.mark.parametrize(("n", "h"), [(2003, 3), (1009, 97), (11, 211), (503, 31)])
def test_large_sets_meet_the_conditions_of_optimality(n: int, h: int) -> None:
    keys = np.random.default_rng(n).standard_normal((n, h))
    index = int(np.argmax(np.linalg.norm(keys, axis=1)))
    found = select(keys, index, 0.99)
    assert found.feasible
    assert found.query is not None
    rows = rows_of(keys, index)
    p = softmax(rows @ found.query)
    pull = -(p @ rows)
    cosine = float(found.query @ pull / np.linalg.norm(found.query) / np.linalg.norm(pull))
    assert cosine > 1 - 1e-12  # q = mu sum p_i (k_j - k_i)
    assert _f(rows, found.query) == pytest.approx(level_of(0.99), abs=1e-12)  # active
    assert found.also["gap"] < 1e-9


def test_scaling_turning_and_shifting_the_keys() -> None:
    rng = np.random.default_rng(5)
    keys = rng.standard_normal((13, 5))
    index = int(np.argmax(np.linalg.norm(keys, axis=1)))
    base = select(keys, index, 0.95)
    assert base.norm is not None
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    for factor in (1e-8, 1.0, 1e8):
        found = select(factor * keys @ turn, index, 0.95)
        assert found.norm == pytest.approx(base.norm / factor, rel=1e-9)
    shifted = select(keys + 1e6, index, 0.95)  # 1e6 eps is what the shift rounds away
    assert shifted.norm == pytest.approx(base.norm, rel=1e-8)
    scaled = select(keys, index, 0.95, 0.25)
    assert scaled.norm == pytest.approx(4 * base.norm, rel=1e-9)


@pytest.mark.parametrize(
    ("keys", "index", "best", "attained"),
    [
        ([[1, 0], [1, 0], [0, 1], [-1, -1]], 0, 1 / 2, False),  # a corner, twice
        ([[0, 0], [1, 0], [-1, 0], [0, 1]], 0, 1 / 3, False),  # the middle of an edge
        ([[0, 0], [1, 0], [-1, 0]], 0, 1 / 3, True),  # the middle of a segment: no way off it
        ([[2.0, 1], [2, 1], [2, 1]], 1, 1 / 3, True),  # all equal
        ([[0], [1], [-1], [0]], 0, 1 / 4, True),
        ([[0.0] * 3] * 7, 2, 1 / 7, True),
    ],
)
def test_hulls_known_by_hand(
    keys: list[list[float]], index: int, best: float, attained: bool
) -> None:
    found = select(keys, index, 0.9)
    assert not found.feasible
    assert found.attained is attained
    assert found.certificate is not None
    assert found.certificate["best_weight"] == pytest.approx(best, rel=1e-12)
    assert found.certificate["checked"] == "exact"
    holds(np.array(keys, dtype=float), index, 0.9, found)
    below = select(keys, index, 0.99 * best)  # and any weight below it can be had
    assert below.feasible
    holds(np.array(keys, dtype=float), index, 0.99 * best, below)


def test_a_supremum_that_is_only_approached_is_not_reached() -> None:
    keys = [[0.0, 0], [1, 0], [-1, 0], [0, 1]]
    assert not select(keys, 0, 1 / 3).feasible
    lengths = [select(keys, 0, 1 / 3 - gap).norm or 0.0 for gap in (1e-2, 1e-4, 1e-6)]
    assert lengths[0] < lengths[1] < lengths[2]
    # One key leaves like e^-q: a hundredth of the gap costs ln 100.
    assert lengths[2] - lengths[1] == pytest.approx(math.log(100), rel=1e-3)


def test_keys_that_rounding_moved_off_a_line_are_not_called_selectable() -> None:
    keys = np.outer([0.1, 0.2, 0.3, 0.7], [0.1, 0.3, 0.7])  # collinear but for the last digit
    found = select(keys, 1, 0.9)
    assert not found.feasible
    assert found.certificate is not None
    # Whatever exact arithmetic on these doubles says, no query of a usable length will do.
    assert found.certificate.get("norm_bound", math.inf) > 1e12


@pytest.mark.parametrize("seed", range(12))
def test_the_weight_reached_on_a_rounded_line_is_the_best_one_claimed(seed: int) -> None:
    """In exact arithmetic such keys span a plane, whose combinations allow for more than is so."""
    rng = np.random.default_rng(seed)
    keys = np.outer(rng.standard_normal(11), rng.standard_normal(2))
    index = int(np.argsort(keys[:, 0])[4])  # between others
    found = select(keys, index, 0.9)
    assert not found.feasible
    holds(keys, index, 0.9, found)


@pytest.mark.parametrize("seed", range(5))
def test_a_share_that_only_duplicates_forbid_is_not_reached(seed: int) -> None:
    """Five equal keys at a corner: 1/5 is approached. 0.2 as a double is a little above that."""
    keys = np.random.default_rng(seed).standard_normal((10, 5))
    keys[:5] = 3 * keys[0]
    assert not select(keys, 1, 0.2).feasible
    assert select(keys, 1, 0.1999).feasible


def test_the_zero_query_is_enough_for_a_share_of_one_key() -> None:
    keys = np.random.default_rng(1).standard_normal((7, 3))
    for weight in (1e-6, 0.1, 1 / 7):
        found = select(keys, 2, weight)
        assert found.norm == 0
        assert found.weights == pytest.approx(np.full(7, 1 / 7))
    assert select([[5.0, 5.0]], 0, 1 - 1e-12).norm == 0  # alone


@pytest.mark.parametrize("seed", range(6))
def test_max_margin_is_the_limit_and_never_shorter(seed: int) -> None:
    keys = np.random.default_rng(seed).standard_normal((17, 3))
    index = int(np.argmax(np.linalg.norm(keys, axis=1)))
    weights = (0.5, 0.99, 1 - 1e-9)
    found = [select(keys, index, w) for w in weights]
    ratios = [one.also["max_margin"]["ratio"] for one in found]
    assert min(ratios) >= 1 - 1e-12
    gap = found[0].also["max_margin"]["gap"]
    assert gap == pytest.approx(widest_gap(rows_of(keys, index)), rel=1e-6)
    for one, weight in zip(found, weights, strict=True):
        beside = one.also["max_margin"]
        reached = softmax(beside["norm"] * (keys @ beside["direction"]))[index]
        assert reached == pytest.approx(weight, abs=1e-9)
    # max <= f <= max + ln 16: any query needs L / gap, this direction (L + ln 16) / gap at most.
    lead = -level_of(weights[2])
    assert ratios[2] <= (lead + math.log(16)) / lead


def test_the_max_margin_query_is_a_third_too_long_at_one_half_and_8_percent_at_99() -> None:
    """For these 17 keys, by a second solver too: the ratio depends on the keys, not only on w."""
    keys = np.random.default_rng(5).standard_normal((17, 3))
    index = int(np.argmax(np.linalg.norm(keys, axis=1)))
    for weight, ratio, within in ((0.5, 4 / 3, 0.01), (0.99, 1.08, 0.01)):
        beside = select(keys, index, weight).also["max_margin"]
        other = shortest_norm(rows_of(keys, index), level_of(weight))
        assert other is not None
        needed = radius(rows_of(keys, index) @ beside["direction"], level_of(weight), 100.0)
        assert needed / other == pytest.approx(beside["ratio"], rel=1e-5)
        assert beside["ratio"] == pytest.approx(ratio, abs=within)


def test_a_key_in_the_hull_has_no_max_margin_direction() -> None:
    found = select([[0.0, 0], [1, 0], [-1, 0], [0, 1]], 0, 0.3)
    assert found.feasible
    assert found.also["max_margin"]["direction"] is None
    assert found.also["max_margin"]["reason"]


def test_values_give_the_output() -> None:
    values = np.array([[1.0, 2], [3, 4], [5, 6]])
    found = select(np.eye(3), 2, 0.99, values=values)
    assert found.weights is not None
    assert found.output == pytest.approx(found.weights @ values)


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": [[1.0, 2], [3]]},
        {"keys": [[math.nan, 1.0]]},
        {"keys": []},
        {"keys": [1.0, 2.0]},
        {"keys": [["a"]]},
        {"keys": [[1e200]]},
        {"index": 3},
        {"index": -1},
        {"index": 0.5},
        {"weight": 1.0},
        {"weight": 0.0},
        {"weight": math.nan},
        {"scale": "root"},
        {"scale": 0.0},
        {"values": [[1.0]]},
    ],
)
def test_wrong_input_is_refused_in_one_line(wrong: dict[str, Any]) -> None:
    good: dict[str, Any] = {"keys": np.eye(3), "index": 0}
    with pytest.raises(UsageError) as refusal:
        select(**{**good, **wrong})
    assert "\n" not in str(refusal.value)
