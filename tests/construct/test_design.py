"""Query and key together: by the definition, against grids of queries, by their certificates."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.construct import Construction, attention_weights, design, parse_goal, replace_key
from attnlab.construct.cone import Cone, find_direction, find_long_direction
from attnlab.construct.goals import EQUAL, Goal
from attnlab.core.errors import UsageError


def holds(goal: Goal, weights: np.ndarray) -> bool:
    own = weights[list(goal.members)]
    return bool(own.sum() >= (goal.weight or 0.99) - 1e-9 and own.max() <= own.min() * (1 + EQUAL))


def verify(
    keys: np.ndarray, goals: tuple[str | None, str], free: list[int], answer: Construction
) -> None:
    """What a feasible answer claims, from the definitions alone."""
    assert answer.feasible and answer.query is not None and answer.key is not None
    before, after = goals
    if before is not None:
        assert holds(parse_goal(before), attention_weights(keys, answer.query))
    new = keys.copy()
    new[free] = answer.key.reshape(len(free), -1)
    assert holds(parse_goal(after), attention_weights(new, answer.query))
    assert answer.weights is not None
    np.testing.assert_allclose(answer.weights, attention_weights(new, answer.query), rtol=1e-12)


def refuted(keys: np.ndarray, goals: tuple[str | None, str], free: list[int], proof: dict) -> None:
    """lambda >= 0 over differences, whose mean is a combination of the differences within goals."""
    rows = np.array(
        [
            keys[int(a[1:])] - keys[int(b[1:])]
            for a, b in (name.split(" - ") for name in proof["differences"])
        ]
    )
    shares = np.asarray(proof["lambda"])
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1, abs=1e-9)
    within = [
        keys[i] - keys[j]
        for goal in goals
        if goal is not None
        for i, j in pairwise(
            [m for m in parse_goal(goal).members if goal is goals[0] or m not in free]
        )
    ]
    mean = shares @ rows
    if within:
        mean = mean - np.array(within).T @ np.linalg.lstsq(np.array(within).T, mean, rcond=None)[0]
    assert np.abs(mean).max() <= 1e-9 * max(np.abs(rows).max(), 1e-300)
    assert proof["excluded_by"] >= 0


def grid_finds(
    keys: np.ndarray, goals: tuple[str | None, str], free: list[int], unit_norm: bool
) -> bool:
    """Queries on a grid of directions and lengths that meets the equal scores, one by one."""
    h = keys.shape[1]
    before = None if goals[0] is None else parse_goal(goals[0])
    after = parse_goal(goals[1])
    fixed = [m for m in after.members if m not in free]
    equal = [keys[i] - keys[j] for i, j in pairwise(fixed)]
    equal += [keys[i] - keys[j] for i, j in pairwise(before.members)] if before else []
    basis = np.eye(h)
    if equal:
        _, values, across = np.linalg.svd(np.array(equal))
        basis = across[int((values > 1e-12).sum()) :].T
    lengths = 2.0 ** np.arange(-2, 14, 0.5)
    queries = np.vstack([np.zeros(h), *(r * directions(basis) for r in lengths)])
    size = np.linalg.norm(queries, axis=1) if unit_norm else np.full(len(queries), 1e6)
    size[0] = 0
    scores = queries @ keys.T
    good = np.ones(len(queries), bool) if before is None else many(before, scores)
    own = scores[:, fixed[0]] if fixed else size
    for i in free:
        scores[:, i] = own if i in after.members else -size
    if unit_norm and fixed and any(i in after.members for i in free):
        good &= np.abs(own) <= size * (1 + 1e-12)
    return bool((good & many(after, scores)).any())


def directions(basis: np.ndarray) -> np.ndarray:
    p = basis.shape[1]
    if p == 0:
        return np.zeros((0, basis.shape[0]))
    if p == 1:
        return np.vstack([basis.T, -basis.T])
    if p == 2:
        angle = np.linspace(0, 2 * np.pi, 1501)
        return np.column_stack([np.cos(angle), np.sin(angle)]) @ basis.T
    drawn = np.random.default_rng(0).normal(size=(3000, p))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True) @ basis.T


def many(goal: Goal, scores: np.ndarray) -> np.ndarray:
    """`holds` for many queries; equal scores were arranged up to rounding of scores below 1e6."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    own = weights[:, list(goal.members)]
    even = own.max(axis=1) <= own.min(axis=1) * 1.001
    return even & (own.sum(axis=1) >= (goal.weight or 0.99) * weights.sum(axis=1))


def drawn_case(seed: int, h: int) -> tuple[np.ndarray, tuple[str | None, str], list[int]]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 6))
    keys = rng.normal(size=(n, h)) * rng.choice([0.7, 1.5, 3.0, 6.0])
    keys = np.round(keys) if seed % 3 == 0 else keys

    def goal() -> str:
        if rng.random() < 0.5:
            return f"select:{rng.integers(n)}"
        return "average:" + ",".join(
            map(str, rng.choice(n, int(rng.integers(2, 4)), replace=False))
        )

    free = sorted(int(i) for i in rng.choice(n, 1 if rng.random() < 0.8 else 2, replace=False))
    return keys, (goal() if rng.random() < 0.7 else None, goal()), free


@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize(("h", "cases"), [(2, 60), (3, 17)])
def test_a_grid_of_queries_finds_what_we_find_and_nothing_where_we_say_none(
    h: int, cases: int, unit_norm: bool
) -> None:
    kinds: set[str] = set()
    for seed in range(cases):
        keys, goals, free = drawn_case(seed, h)
        answer = design(keys, goals, free, unit_norm)
        json.dumps(answer.as_json(), allow_nan=False)
        expected = grid_finds(keys, goals, free, unit_norm)
        assert answer.feasible is expected, (seed, goals, free, answer.why)
        if answer.feasible:
            verify(keys, goals, free, answer)
            if unit_norm and answer.key is not None:
                sizes = np.linalg.norm(answer.key.reshape(len(free), -1), axis=1)
                np.testing.assert_allclose(sizes, 1, atol=1e-14)
        else:
            assert answer.certificate is not None
            kinds.add(answer.certificate["kind"])
            if answer.certificate["kind"] == "no-direction":
                refuted(keys, goals, free, dict(answer.certificate))
    assert "no-direction" in kinds and "open" not in kinds
    if unit_norm and h == 2:
        assert "unit-reach" in kinds


def test_the_course_s_exercise_is_impossible_with_its_query_and_possible_with_ours() -> None:
    """q averages v_1 and v_2; one unit key more and the same q averages three, or returns it."""
    keys = np.array([[-3.0, 0, 1], [1, 1, -1], [0, 1, 1], [1, 0, 0]])
    values = np.array([[2.0, 0, 1], [1, 4, 3], [0, -1, 4], [1, 0, -1]])
    theirs = np.array([20.0, 20.0, 10.0])  # keys 1 and 2 score 30: as much as a unit key can
    assert not replace_key(keys, theirs, 0, "select:0", unit_norm=True, values=values).feasible
    for after, wanted in (
        ("average:0,1,2", values[:3].mean(axis=0)),
        ("select:0", values[0]),
    ):
        answer = design(keys, {"before": "average:1,2", "after": after}, [0], True, values=values)
        verify(keys, ("average:1,2", after), [0], answer)
        assert answer.output is not None and answer.key is not None
        assert np.abs(answer.output - wanted).max() <= 0.05
        before = answer.also["before"]["output"]
        assert np.abs(before - values[1:3].mean(axis=0)).max() <= 0.05
        assert np.linalg.norm(answer.key) == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_without_unit_length_no_query_of_a_grid_is_shorter(seed: int) -> None:
    """In the plane of allowed queries, 4001 directions, the least length of each by bisection."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(4, 2))
    keys[0] += [3.0, 0.0]  # outside the hull of the others
    answer = design(keys, ("select:0@0.9", "average:0,3@0.9"), [3])
    angle = np.linspace(0, 2 * np.pi, 4001)
    d = np.column_stack([np.cos(angle), np.sin(angle)])
    low, high = np.zeros(len(d)), np.full(len(d), 1e4)
    before, after = parse_goal("select:0@0.9"), parse_goal("average:0,3@0.9")

    def good(length: np.ndarray) -> np.ndarray:
        scores = (length[:, None] * d) @ keys.T
        moved = scores.copy()
        moved[:, 3] = scores[:, 0]
        return many(before, scores) & many(after, moved)

    possible = good(high)
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = good(middle)
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    best = float(high[possible].min())
    assert answer.norm is not None
    # The solver is kept 1e-6 inside; between two directions the length bends by their angle^2.
    assert answer.norm <= best * (1 + 1e-5)
    assert answer.norm >= best * (1 - (2 * np.pi / 4000) ** 2 * 50)
    assert answer.also["shortest"]


def test_goals_in_each_other_s_way_are_refuted_exactly() -> None:
    """Key 1 is the midpoint of 0 and 2: selecting it is impossible, alone or with a new key 3."""
    keys = np.array([[0.0, 0], [1, 1], [2, 2], [5, -7]])
    answer = design(keys, ("select:1", "select:3"), [3])
    assert not answer.feasible and answer.certificate is not None
    assert answer.certificate["kind"] == "no-direction"
    assert answer.certificate["checked"] == "exact"
    found = dict(zip(answer.certificate["differences"], answer.certificate["lambda"], strict=True))
    assert found == {"k0 - k1": 0.5, "k2 - k1": 0.5}
    assert "select:1" in answer.why
    # Replacing key 2 removes the obstacle for the goal after, not for the one before.
    assert design(keys, (None, "select:1"), [2]).feasible


def test_low_weights_are_refuted_by_entropy() -> None:
    """The centre of a cross has at most 1/5; with an arm replaced, 1/4 if it can leave."""
    cross = np.array([[0.0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
    assert design(cross, ("select:0@0.199", "average:0,1@0.2"), [1]).feasible
    answer = design(cross, ("select:0@0.21", "select:1"), [1])
    assert not answer.feasible and answer.certificate is not None
    refuted(cross, ("select:0@0.21", "select:1"), [1], dict(answer.certificate))
    # excluded_by at the uniform lambda: log 4 - log(1/0.21 - 1).
    limit = math.log(4) - math.log(1 / 0.21 - 1)
    assert answer.certificate["excluded_by"] == pytest.approx(limit, abs=1e-6)


def test_a_limit_that_is_never_attained_is_refused() -> None:
    """Keys 0 and 3 are the same: one of them has less than half the weight, always."""
    keys = np.array([[2.0], [-1.0], [-1.0], [2.0]])
    answer = design(keys, "select:3@0.5", [1])
    assert not answer.feasible and answer.certificate is not None
    assert answer.certificate["kind"] == "no-direction"
    assert answer.certificate["excluded_by"] == 0
    verify(keys, (None, "select:3@0.4999"), [1], design(keys, "select:3@0.4999", [1]))


def test_unit_keys_that_cannot_reach_are_refuted_by_bounds() -> None:
    """Key 0 wins only within atan(1/10) of the x axis, where it scores 3 cos: far beyond |q|."""
    keys = np.array([[3.0, 0], [2.9, 1], [2.9, -1], [0, 0]])
    answer = design(keys, (None, "average:0,3"), [3], unit_norm=True)
    assert not answer.feasible and answer.certificate is not None
    assert answer.certificate["kind"] == "unit-reach"
    worst = 1 / (3 * math.cos(math.atan(0.1)))
    assert answer.certificate["largest_length_over_score"] == pytest.approx(worst, rel=1e-6)
    assert design(keys, (None, "average:0,3"), [3]).feasible
    # One dimension more, and a part of the query across all keys makes it long enough.
    wide = np.column_stack([keys, np.zeros(4)])
    verify(wide, (None, "average:0,3"), [3], design(wide, (None, "average:0,3"), [3], True))


def test_the_longest_direction_is_that_of_the_corners() -> None:
    """A cone with known rays: the longest d on the slice is at one of them."""
    rng = np.random.default_rng(5)
    for _ in range(5):
        rays = np.abs(rng.normal(size=(3, 3))) + np.array([2.0, 0, 0])
        faces = np.array([np.cross(rays[i], rays[(i + 1) % 3]) for i in range(3)])
        signs = np.sign([faces[i] @ rays[(i + 2) % 3] for i in range(3)])
        cone = Cone.of(-faces * signs[:, None], np.zeros((0, 3)))
        along = np.array([[1.0, 0.2, 0.2]])
        ratios = np.linalg.norm(rays, axis=1) / (rays @ along[0])
        for size in (0.9 * ratios.max(), 1.1 * ratios.max()):
            far, bound = find_long_direction(cone, along * size)
            assert (far is not None) == (ratios.max() / size > 1)
            if far is None:
                assert ratios.max() / size - 1e-9 <= bound <= 1 + 1e-6
            else:
                assert size * float(along[0] @ far) < np.linalg.norm(far) * (1 + 1e-9)


def test_a_direction_or_its_refutation() -> None:
    rows = np.array([[1.0, 0, 0], [-0.5, 0.5, 0], [-0.5, -0.5, 0]])
    found, proof = find_direction(Cone.of(rows, np.zeros((0, 3))))
    assert found is None and proof is not None and proof.exact
    np.testing.assert_allclose(proof.rows, np.full(3, 1 / 3))
    found, proof = find_direction(Cone.of(rows[:2], np.zeros((0, 3))))
    assert proof is None and found is not None and (rows[:2] @ found < 0).all()
    # An equation that leaves nothing of the rows.
    found, proof = find_direction(Cone.of(rows[:1], np.array([[2.0, 0, 0]])))
    assert found is None and proof is not None and proof.equations == pytest.approx([0.5])


@pytest.mark.parametrize("unit_norm", [False, True])
@pytest.mark.parametrize(
    ("goals", "free"),
    [
        (("average:0,1", "average:2,3"), [2, 3]),
        ((None, "average:0,1"), [2, 3]),
        (("select:0", "average:0,2,4"), [2, 4]),
        (("average:0,1", "select:4"), [2, 3, 4]),
    ],
)
def test_several_keys_are_replaced_together(
    goals: tuple[str | None, str], free: list[int], unit_norm: bool
) -> None:
    keys = np.random.default_rng(13).normal(size=(5, 7))
    answer = design(keys, goals, free, unit_norm)
    verify(keys, goals, free, answer)
    assert answer.key is not None and answer.key.shape == (len(free), 7)
    if unit_norm:
        np.testing.assert_allclose(np.linalg.norm(answer.key, axis=1), 1, atol=1e-14)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_the_size_of_the_keys_changes_nothing_but_the_query(size: float) -> None:
    keys = np.random.default_rng(3).normal(size=(5, 3))
    goals = ("average:0,1", "average:0,1,2")
    plain, answer = design(keys, goals, [2]), design(size * keys, goals, [2])
    verify(size * keys, goals, [2], answer)
    assert plain.norm is not None and answer.norm is not None
    assert answer.norm * size == pytest.approx(plain.norm, rel=1e-6)


@pytest.mark.parametrize("scale", ["sqrt", 0.25])
def test_a_scale_only_lengthens_the_query(scale: str | float) -> None:
    keys = np.random.default_rng(4).normal(size=(5, 3))
    goals = ("select:0", "select:2")
    plain, answer = design(keys, goals, [2]), design(keys, goals, [2], scale=scale)
    factor = 1 / math.sqrt(3) if scale == "sqrt" else 0.25
    assert plain.norm is not None and answer.norm is not None
    assert answer.norm * factor == pytest.approx(plain.norm, rel=1e-6)


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 3))
def test_whole_number_keys_give_an_answer_that_holds_or_a_proof(
    seed: int, unit_norm: bool, h: int
) -> None:
    """Duplicates, zero keys, one dimension; every refusal carries a proof."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(-2, 3, size=(4, h)).astype(float)
    goals = (f"select:{rng.integers(4)}", f"average:{','.join(map(str, rng.permutation(4)[:2]))}")
    answer = design(keys, goals, [3], unit_norm)
    if answer.feasible:
        verify(keys, goals, [3], answer)
    else:
        assert answer.certificate is not None
        assert answer.certificate["kind"] != "open", (keys, goals)
        if answer.certificate["kind"] == "no-direction":
            refuted(keys, goals, [3], dict(answer.certificate))


def test_goals_may_be_given_in_three_ways() -> None:
    keys = np.eye(3)
    first = design(keys, {"before": "select:0", "after": "select:1"}, [1])
    second = design(keys, (Goal("select", (0,)), "select:1"), [1])
    assert first.query is not None and second.query is not None
    np.testing.assert_array_equal(first.query, second.query)
    assert design(keys, "select:1", [0]).feasible


def test_bad_input_is_refused() -> None:
    keys = np.eye(3)
    for goals, free in (
        ({"before": "select:0"}, [1]),
        ({"first": "select:0", "after": "select:1"}, [1]),
        (("select:0", "select:1", "select:2"), [1]),
        ("select:3", [1]),
        ("select:1", [3]),
        ("select:1", []),
        ("select:1", [1, 1]),
    ):
        with pytest.raises(UsageError):
            design(keys, goals, free)
