"""Shares over seeds: the interval covers seeds and items, stays within 0 and 1, has a length."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.measure.intervals import difference_of_shares, mean_interval, wilson
from attnlab.measure.shares import effective_items, share_difference, share_interval

DRAWS, LEVEL = 2000, 0.95
MONTE_CARLO = 3 * math.sqrt(LEVEL * (1 - LEVEL) / DRAWS)
counted = st.lists(
    st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    min_size=1,
    max_size=7,
)


def right_answers(share: float, differ: float, seeds: int, items: int) -> np.ndarray:
    """Beta-binomial counts (draws, seeds); `differ` is the correlation of answers of one seed."""
    rng = np.random.default_rng([seeds, items, int(1000 * share), int(1000 * differ)])
    if not differ:
        return rng.binomial(items, share, (DRAWS, seeds))
    strength = 1 / differ - 1
    shares = rng.beta(share * strength, (1 - share) * strength, (DRAWS, seeds))
    return rng.binomial(items, shares)


# share, how much seeds differ, seeds, items of each
MODELS = [
    (0.71, 0.0, 3, 50),
    (0.71, 0.05, 3, 500),
    (0.3, 0.2, 3, 500),
    (0.71, 0.01, 5, 500),
    (0.95, 0.01, 5, 50),
    (0.95, 0.05, 3, 500),
    (0.99, 0.01, 3, 500),
    (0.3, 0.05, 10, 50),
]


@pytest.mark.parametrize(("share", "differ", "seeds", "items"), MODELS)
def test_it_covers_as_often_as_it_says(share: float, differ: float, seeds: int, items: int) -> None:
    inside = 0
    for right in right_answers(share, differ, seeds, items).tolist():
        e = share_interval([(k, items) for k in right])
        inside += e.low <= share <= e.high
    assert inside / DRAWS > LEVEL - MONTE_CARLO  # it may be too long, not too short


@pytest.mark.parametrize(("seed_spread", "item_spread"), [(0.0, 0.7), (0.3, 0.7), (0.15, 1.5)])
def test_it_covers_seeds_that_are_asked_the_same_items(
    seed_spread: float, item_spread: float
) -> None:
    """An item is answered if seed, item and chance together pass a threshold: 90 % are."""
    rng, inside, items = np.random.default_rng(5), 0, 100
    spread = math.sqrt(1 + seed_spread**2 + item_spread**2)
    for _ in range(DRAWS):
        seeds = rng.normal(0, seed_spread, (3, 1)) + rng.normal(0, item_spread, (1, items))
        right = (seeds + rng.normal(size=(3, items)) < 1.2815515655446004 * spread).sum(axis=1)
        e = share_interval([(int(k), items) for k in right], same_items=True)
        inside += e.low <= 0.9 <= e.high
    assert inside / DRAWS > LEVEL - MONTE_CARLO


def test_pooled_answers_do_not() -> None:
    """Wilson's interval over the answers of three seeds that differ: 95 % are 30 %."""
    totals = right_answers(0.71, 0.05, 3, 500).sum(axis=1).tolist()
    inside = [(e := wilson(k, 1500)).low <= 0.71 <= e.high for k in totals]
    assert np.mean(inside) < 0.5


@given(counted, st.booleans())
@settings(max_examples=200, derandomize=True, deadline=None)
def test_it_stays_within_0_and_1_and_has_a_length(
    counts: list[tuple[int, int]], same_items: bool
) -> None:
    e = share_interval(counts, same_items=same_items)
    right, items = (sum(column) for column in zip(*counts, strict=True))
    assert e.value == right / items and e.n == len(counts)
    assert 0 <= e.low <= e.value <= e.high <= 1 and e.low < e.high
    wider = e.at(0.999)
    assert wider.low <= e.low and wider.high >= e.high and "99.9 %" in wider.method
    pooled = wilson(right, items)
    assert e.high - e.low >= (pooled.high - pooled.low) * (1 - 1e-12)


def test_all_right_in_every_seed_is_no_certainty() -> None:
    e = share_interval([(500, 500)] * 3)
    assert e.value == e.high == 1 and e.low == pytest.approx(0.988, abs=0.0005)
    same = share_interval([(500, 500)] * 3, same_items=True)  # 500 items, not 1,500
    assert same.high == 1 and same.low == pytest.approx(0.9923, abs=0.0005)


def test_one_seed_is_one_model() -> None:
    e, plain = share_interval([(41, 57)]), wilson(41, 57)
    assert (e.value, e.low, e.high) == (plain.value, plain.low, plain.high)
    assert e.n == 1 and "one seed" in e.method
    assert math.isnan(share_interval([]).value) and math.isnan(share_interval([(0, 0)]).value)
    assert share_interval([(0, 0), (41, 57)]).n == 1
    with pytest.raises(ValueError, match="right answers and items"):
        share_interval([(3, 2), (1, 2)])


def test_seeds_that_differ_are_worth_fewer_answers() -> None:
    assert effective_items([(50, 100)] * 4) == 400
    assert effective_items([(50, 100)] * 4, same_items=True) == 100
    assert effective_items([(0, 100), (100, 100)]) == pytest.approx(1)
    # v = 3/2 · (20² + 20²) / 300², p(1−p)/n = 1/1200
    assert effective_items([(30, 100), (50, 100), (70, 100)]) == pytest.approx(300 / 16)


def test_differences_are_over_seeds_unless_they_are_equal() -> None:
    one, other = [(90, 100), (97, 100), (95, 100)], [(80, 100), (91, 100), (82, 100)]
    assert share_difference(one, other) == mean_interval([0.9 - 0.8, 0.97 - 0.91, 0.95 - 0.82])
    equal = share_difference([(499, 500)] * 3, [(499, 500)] * 3)
    assert equal.value == 0 and equal.n == 3 and equal.low == pytest.approx(-equal.high)
    assert 0.005 < equal.high < 0.02 and equal.at(0.99).high > equal.high
    assert equal.half_width > difference_of_shares((1497, 1500), (1497, 1500)).half_width
    assert not share_difference(one[:1], other[:1]).has_interval
