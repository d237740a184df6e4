"""One new key: against every key a grid or a random draw offers, and against fractions."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.construct import attention_weights, parse_goal, replace_key
from attnlab.construct.goals import EQUAL, TOLERANCE, Goal, Target
from attnlab.construct.numerics import sigmoid
from attnlab.construct.segment import Segment, least_output_error
from attnlab.core.errors import UsageError

N, H = 5, 3
GOALS = (
    "select:2",
    "select:0",
    "average:1,2,4",
    "average:0,1",
    "average:0,1,2,3,4",
    "select:2@0.6",
)


def drawn(seed: int, level: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Keys and a query; with `level`, keys 0, 1 and 4 have one score."""
    rng = np.random.default_rng(seed)
    keys, query = rng.normal(size=(N, H)), 3 * rng.normal(size=H)
    if level:
        score = float((keys @ query).max()) + 2
        for i in (0, 1, 4):
            keys[i] += (score - keys[i] @ query) / (query @ query) * query
    return keys, query


def with_key(keys: np.ndarray, index: int, key: np.ndarray) -> np.ndarray:
    new = keys.copy()
    new[index] = key
    return new


def good(goal: Goal, weights: np.ndarray, slack: float = 0.0) -> np.ndarray:
    """Equal members and enough weight, by hand; `slack` makes the rule stricter."""
    own = weights[..., list(goal.members)]
    even = own.max(axis=-1) / own.min(axis=-1) - 1 <= EQUAL
    return even & (own.sum(axis=-1) >= (goal.weight or 0.99) + slack)


@pytest.mark.parametrize("seed", range(4))
def test_a_new_key_moves_the_weights_along_one_segment(seed: int) -> None:
    keys, query = drawn(seed)
    segment = Segment(keys, query, 2, 0.7, unit_norm=False)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        key = 2 * rng.normal(size=H)
        found = segment.weights(segment.x_of(key))
        # Both sides round a sum of 5 exponentials of scores below 30: 30 * 8 eps is plenty.
        np.testing.assert_allclose(
            found, attention_weights(with_key(keys, 2, key), query, 0.7), rtol=1e-13, atol=1e-15
        )


@pytest.mark.parametrize("level", [False, True])
@pytest.mark.parametrize("goal", GOALS)
def test_no_key_along_the_query_is_nearer_or_does_what_we_say_none_does(
    goal: str, level: bool
) -> None:
    for seed in range(6):
        keys, query = drawn(seed, level)
        answer = replace_key(keys, query, 2, goal)
        wanted = parse_goal(goal)
        x = np.linspace(-60, 60, 24001) / np.linalg.norm(query)
        offered = keys[2] + x[:, None] * query / np.linalg.norm(query)
        scores = np.repeat((keys @ query)[None], x.size, axis=0)
        scores[:, 2] = offered @ query
        # A grid meets equal weights only to its step: those are checked by their own sum.
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        inside = 2 in wanted.members and len(wanted.members) > 1
        fits = np.array([False]) if inside else good(wanted, weights)
        assert answer.key is not None and answer.weights is not None
        if answer.feasible:
            assert good(wanted, attention_weights(with_key(keys, 2, answer.key), query))
            step = x[1] - x[0]
            nearest = np.abs(x[fits]).min(initial=math.inf)
            assert np.linalg.norm(answer.key - keys[2]) <= nearest + 1e-9
            if not inside:
                assert np.linalg.norm(answer.key - keys[2]) >= nearest - step
        else:
            assert not fits.any()


@pytest.mark.parametrize("goal", GOALS)
def test_no_unit_key_is_nearer_or_does_what_we_say_none_does(goal: str) -> None:
    rng = np.random.default_rng(7)
    offered = rng.normal(size=(40_000, H))
    offered /= np.linalg.norm(offered, axis=1, keepdims=True)
    wanted = parse_goal(goal)
    for seed in range(6):
        keys, query = drawn(seed, level=seed % 2 == 0)
        answer = replace_key(keys, query, 2, goal, unit_norm=True)
        assert answer.key is not None
        assert abs(np.linalg.norm(answer.key) - 1) < 1e-14
        scores = np.repeat((keys @ query)[None], len(offered), axis=0)
        scores[:, 2] = offered @ query
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        fits = good(wanted, weights)
        if answer.feasible:
            assert good(wanted, attention_weights(with_key(keys, 2, answer.key), query))
            best = np.linalg.norm(offered[fits] - keys[2], axis=1).min(initial=math.inf)
            assert np.linalg.norm(answer.key - keys[2]) <= best + 1e-9
        else:
            assert not fits.any()
            assert answer.certificate is not None


@pytest.mark.parametrize("seed", range(5))
def test_the_unit_bound_is_reached_and_never_passed(seed: int) -> None:
    keys, query = drawn(seed)
    query = query / 4
    answer = replace_key(keys, query, 2, "select:2", unit_norm=True)
    assert not answer.feasible and answer.certificate is not None and answer.weights is not None
    length = np.linalg.norm(query)
    others = np.exp(np.delete(keys, 2, axis=0) @ query).sum()
    bound = math.exp(length) / (math.exp(length) + others)
    assert answer.certificate["kind"] == "unit-key"
    assert answer.certificate["largest_weight"] == pytest.approx(bound, rel=1e-13)
    assert answer.weights[2] == pytest.approx(bound, rel=1e-13)


def test_the_new_key_equals_the_one_computed_in_fractions() -> None:
    """k + (c - q.k) q / |q|^2 with whole numbers: each entry rounds a handful of times."""
    keys = np.array([[2, 1, 0], [1, 3, 5], [7, -2, 3], [-9, -9, -9], [-8, -9, -9]], dtype=float)
    query = np.array([3.0, -1.0, 1.0])  # 0 and 1 score 5, 2 scores 26
    answer = replace_key(keys, query, 2, "average:0,1,2")
    q = [Fraction(int(x)) for x in query]
    old = [Fraction(int(x)) for x in keys[2]]
    lead = Fraction(5) - sum((a * b for a, b in zip(q, old, strict=True)), Fraction(0))
    exact = [
        k + lead * x / sum((y * y for y in q), Fraction(0)) for k, x in zip(old, q, strict=True)
    ]
    assert answer.feasible and answer.key is not None
    off = max(abs(Fraction(float(a)) - b) for a, b in zip(answer.key, exact, strict=True))
    assert off < Fraction(8 * 7, 2**52)  # 8 roundings of numbers below 7
    assert answer.also["change"] == pytest.approx(21 / math.sqrt(11), rel=1e-14)


def test_the_course_s_attempt_is_impossible_with_its_own_query_and_a_unit_key() -> None:
    keys = np.array([[3.0, 0], [3, 0], [0, 1]])
    answer = replace_key(keys, [4.0, 0], 2, "average:0,1,2", unit_norm=True)
    assert not answer.feasible and answer.certificate is not None and answer.weights is not None
    assert answer.certificate["kind"] == "unit-key"
    assert answer.certificate["needed_score"] == pytest.approx(12)
    assert answer.certificate["largest_score"] == pytest.approx(4)
    # The nearest that can be done: the key along the query.
    assert answer.weights[2] == pytest.approx(math.exp(4) / (math.exp(4) + 2 * math.exp(12)))


def test_members_of_other_scores_are_never_averaged() -> None:
    keys, query = drawn(3)
    answer = replace_key(keys, query, 2, "average:0,1,2")
    assert not answer.feasible and answer.certificate is not None
    assert answer.certificate["kind"] == "fixed-ratio"
    gap = abs(float((keys[0] - keys[1]) @ query))
    assert answer.certificate["score_gap"] == pytest.approx(gap, rel=1e-13)


def test_out_of_the_way_is_a_limit_without_a_length_and_attained_with_one() -> None:
    keys, query = drawn(4)
    goal = "average:0@0.99999"
    limit = replace_key(keys, query / 10, 2, goal)
    unit = replace_key(keys, query / 10, 2, goal, unit_norm=True)
    share = np.exp(np.delete(keys, 2, axis=0) @ query / 10)
    for answer, attained in ((limit, False), (unit, True)):
        assert not answer.feasible and answer.certificate is not None
        assert answer.attained is attained
        assert answer.certificate["kind"] == "fixed-rest"
    assert limit.certificate is not None and limit.weights is not None
    best = share[0] / share.sum()
    assert limit.certificate["largest_total"] == pytest.approx(best, rel=1e-13)
    assert best * (1 - 1.0001e-3) <= limit.weights[0] < best
    assert unit.certificate is not None and unit.weights is not None
    low = math.exp(-np.linalg.norm(query) / 10)
    assert unit.weights[0] == pytest.approx(share[0] / (share.sum() + low), rel=1e-12)


@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize("goal", GOALS[:5])
def test_with_values_the_output_decides(goal: str, unit_norm: bool) -> None:
    """The reachable outputs are points of a segment: 200,001 of them, compared one by one."""
    hits = 0
    for seed in range(8):
        keys, query = drawn(seed, level=seed % 2 == 0)
        values = np.random.default_rng(50 + seed).normal(size=(N, 2)) * (0.02 if seed > 5 else 1)
        answer = replace_key(keys, query, 2, goal, unit_norm, values=values)
        target = Target.of(goal, N, values)
        segment = Segment(keys, query, 2, 1.0, unit_norm)
        low, high = sigmoid(segment.lowest), sigmoid(segment.highest)
        w = np.linspace(low, high, 200_001)[:, None]
        outputs = (1 - w) * (segment.others @ values) + w * values[2]
        errors = np.abs(outputs - target.wanted @ values).max(axis=1)
        least = float(errors.min())
        # The error is linear in w between nodes, with slope at most |v_i - others|.
        step = float(w[1, 0] - w[0, 0]) * float(np.abs(values[2] - segment.others @ values).max())
        assert least - step <= least_output_error(segment, target) <= least + 1e-12
        assert answer.output is not None
        own = float(np.abs(answer.output - target.wanted @ values).max())
        assert own == pytest.approx(answer.also["output_error"], abs=1e-14)
        hits += answer.feasible
        if answer.feasible:
            assert own <= TOLERANCE
        else:
            assert least > TOLERANCE - step
            assert answer.certificate is not None
            assert answer.certificate["least_error"] >= TOLERANCE * (1 - 1e-9)
    assert hits > 0  # tiny values make every goal reachable


def test_a_zero_query_sees_no_key() -> None:
    keys, _ = drawn(0)
    answer = replace_key(keys, np.zeros(H), 2, "select:2")
    assert not answer.feasible and answer.certificate is not None
    assert answer.certificate["kind"] == "zero-query"
    np.testing.assert_array_equal(answer.weights, np.full(N, 1 / N))
    every = replace_key(keys, np.zeros(H), 2, "average:0,1,2,3,4", unit_norm=True)
    assert every.feasible and every.key is not None
    np.testing.assert_allclose(every.key, keys[2] / np.linalg.norm(keys[2]), rtol=1e-15)


def test_in_one_dimension_a_unit_key_is_one_of_two() -> None:
    keys = np.array([[1.0], [0.5], [-3.0]])
    for goal, key, feasible in (
        ("average:0,2", 1.0, True),
        ("average:1,2", 1.0, False),
        ("select:2", 1.0, False),
        ("select:0@0.6", -1.0, True),
    ):
        answer = replace_key(keys, [20.0], 2, goal, unit_norm=True)
        assert answer.key is not None
        assert (answer.feasible, float(answer.key[0])) == (feasible, key), goal


@pytest.mark.parametrize("unit_norm", [False, True])
def test_one_key_has_weight_one(unit_norm: bool) -> None:
    answer = replace_key([[3.0, 4.0]], [1.0, 1.0], 0, "select:0", unit_norm, values=[[7.0]])
    assert answer.feasible and answer.key is not None and answer.output is not None
    assert answer.output[0] == 7
    assert np.linalg.norm(answer.key) == pytest.approx(1.0 if unit_norm else 5.0)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_the_size_of_the_keys_changes_nothing(size: float, offset: float) -> None:
    keys, query = drawn(2, level=True)
    moved = size * (keys + offset)
    answer = replace_key(moved, query / size, 2, "average:0,1,2,4@0.9")
    assert answer.feasible and answer.weights is not None
    # Scores near offset * |q| * 3 carry a rounding of their own size.
    near = 1e-13 + 64 * np.finfo(float).eps * offset * float(np.abs(query).sum())
    assert np.ptp(answer.weights[[0, 1, 2, 4]]) < near


def test_duplicates_and_zero_keys_are_keys() -> None:
    keys = np.array([[1.0, 0], [1, 0], [0, 0], [0, 0]])
    answer = replace_key(keys, [9.0, 0], 3, "average:0,1,3")
    assert answer.feasible and answer.key is not None
    np.testing.assert_allclose(answer.key, [1, 0], atol=1e-15)
    unit = replace_key(np.zeros((3, 2)), [6.0, 0], 0, "select:0", unit_norm=True)
    assert unit.feasible and unit.weights is not None
    assert unit.weights[0] == pytest.approx(0.99, abs=1e-10)


def test_the_answer_is_plain_json() -> None:
    keys, query = drawn(1)
    for goal in GOALS:
        for unit_norm in (False, True):
            found = replace_key(keys, query, 2, goal, unit_norm, values=np.eye(N))
            text = json.dumps(found.as_json(), allow_nan=False)
            assert json.loads(text)["feasible"] is found.feasible


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.text(max_size=30))
def test_a_goal_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        goal = parse_goal(text)
    except UsageError as error:
        assert "\n" not in str(error).replace(repr(text), "")
    else:
        assert parse_goal(str(goal)) == goal


@settings(max_examples=100, derandomize=True, deadline=None)
@given(
    st.sampled_from(["average", "select"]),
    st.sets(st.integers(0, 10**8), min_size=1, max_size=5),
    st.none() | st.floats(1e-12, 1 - 1e-12),
)
def test_a_goal_survives_being_written(kind: str, members: set[int], weight: float | None) -> None:
    goal = Goal(kind, tuple(members if kind == "average" else [min(members)]), weight)
    assert parse_goal(f" {goal} ") == goal


BAD = (
    "",
    "average",
    "average:",
    "mean:0",
    "average:0,0",
    "select:0,1",
    "select:-1",
    "select:1.5",
    "select:0@",
    "select:0@1",
    "select:0@nan",
    "average:0,",
    "select:٣",
    "select:9999999999",
)


@pytest.mark.parametrize("text", BAD)
def test_bad_goals_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_goal(text)


def test_bad_input_is_refused() -> None:
    keys, query = drawn(0)
    for arguments in (
        (keys, query[:2], 2, "select:2"),
        (keys, query, 5, "select:2"),
        (keys, query, 2, "select:5"),
        (keys, [math.nan] * 3, 2, "select:2"),
    ):
        with pytest.raises(UsageError):
            replace_key(*arguments)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(GOALS), st.booleans(), st.booleans())
def test_whole_number_keys_give_an_answer_that_holds_or_a_reason(
    seed: int, goal: str, unit_norm: bool, valued: bool
) -> None:
    """Small whole numbers bring ties, duplicates and zeros."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(-2, 3, size=(N, 2)).astype(float)
    query = rng.integers(-2, 3, size=2).astype(float)
    values = rng.integers(-1, 2, size=(N, 2)).astype(float) if valued else None
    answer = replace_key(keys, query, 2, goal, unit_norm, values=values)
    assert answer.key is not None and answer.weights is not None
    np.testing.assert_allclose(
        answer.weights, attention_weights(with_key(keys, 2, answer.key), query), rtol=1e-13
    )
    assert Target.of(goal, N, values).met(answer.weights) is answer.feasible
    assert (answer.certificate is None) is answer.feasible
    if unit_norm:
        assert np.linalg.norm(answer.key) == pytest.approx(1, abs=1e-14)
