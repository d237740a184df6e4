"""Intervals against scipy.stats, against their promise (coverage), and Holm by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.measure.intervals import (
    Estimate,
    bootstrap_mean,
    item_interval,
    mean_interval,
    percent,
    two_way_interval,
)

runs = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=13)


@given(runs, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_t_interval_is_that_of_scipy(values: list[float], level: float) -> None:
    found = mean_interval(values, level)
    error = float(scipy.stats.sem(values))
    low, high = scipy.stats.t.interval(level, len(values) - 1, np.mean(values), error or 1.0)
    if error == 0:
        low = high = np.mean(values)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-6)
    assert found.n == len(values)
    assert found.half_width == pytest.approx((high - low) / 2, rel=1e-9, abs=1e-6)
    assert percent(level) in found.method


@pytest.mark.parametrize(("n", "level"), [(3, 0.95), (5, 0.95), (5, 0.9), (11, 0.95)])
def test_the_interval_covers_the_truth_as_often_as_it_says(n: int, level: float) -> None:
    draws, truth = 4001, 2.5
    rng = np.random.default_rng(17)
    found = [mean_interval(rng.normal(truth, 0.7, n), level) for _ in range(draws)]
    covered = np.mean([e.low <= truth <= e.high for e in found])
    assert abs(covered - level) < 4 * math.sqrt(level * (1 - level) / draws)


def test_too_few_runs_have_no_interval() -> None:
    none, one = mean_interval([]), mean_interval([7.0])
    assert math.isnan(none.value) and none.n == 0 and not none.has_interval
    assert one.value == 7.0 and one.n == 1 and not one.has_interval
    assert mean_interval([3.0, math.nan, math.inf]).n == 1


def test_bootstrap_agrees_with_the_normal_interval_for_many_items() -> None:
    items = np.random.default_rng(23).exponential(size=997)
    found = bootstrap_mean(items, np.random.default_rng(29), draws=2003)
    half = 1.96 * items.std(ddof=1) / math.sqrt(items.size)
    assert found.value == items.mean()
    assert found.half_width == pytest.approx(half, rel=0.08)
    assert found.n == 997 and "bootstrap" in found.method
    again = bootstrap_mean(items, np.random.default_rng(29), draws=2003)
    assert (again.low, again.high) == (found.low, found.high)


def test_bootstrap_over_a_few_seeds_is_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        bootstrap_mean(range(19), np.random.default_rng(0))


def test_an_estimate_without_an_interval() -> None:
    assert not Estimate(1.0).has_interval
    assert Estimate(1.0, 0.5, 2.0).half_width == 0.75


def test_a_transformed_estimate_stays_transformed_at_every_level() -> None:
    shifted = mean_interval([1.0, 2.0, 4.0]).transform(lambda e: replace(e, value=e.value + 10))
    once, twice = shifted.at(0.99), shifted.at(0.9).at(0.99)
    assert once.value == shifted.value
    assert (twice.value, twice.low, twice.high) == (once.value, once.low, once.high)
    assert once.low < shifted.low


def test_both_variances_are_in_the_interval() -> None:
    """Seeds and items drawn anew each time: 95 % intervals cover the mean about as often."""
    rng, inside, times = np.random.default_rng(11), 0, 400
    for _ in range(times):
        seeds, items = rng.normal(0, 0.7, (5, 1)), rng.normal(0, 1.9, (1, 43))
        e = two_way_interval(0.3 + seeds + items + rng.normal(0, 0.5, (5, 43)))
        inside += e.low < 0.3 < e.high
    # 0.95 ± 3 binomial standard errors at 400 draws; the interval may be too long, not too short
    assert inside / times > 0.95 - 3 * (0.95 * 0.05 / times) ** 0.5
    assert two_way_interval(np.ones((3, 7))).half_width == 0
    assert not two_way_interval(np.arange(3.0)[:, None]).has_interval  # one item


def test_few_items_get_a_t_interval_and_many_a_bootstrap() -> None:
    values = np.random.default_rng(7).normal(size=37)
    assert "bootstrap" in item_interval(values, "many").method
    assert "over items" in item_interval(values[:5], "few").method
    assert item_interval(values, "a").low == item_interval(values, "a").low
    assert item_interval(values, "a").low != item_interval(values, "b").low  # seeded by the name
