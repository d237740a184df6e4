"""Crossings of known lines, and how often the interval covers the truth."""

import math

import numpy as np
import pytest

from attnlab.measure.crossings import last_crossing, line_crossing, mean_crossing


def test_crossings_of_known_lines() -> None:
    alphas = np.array([1.0, 1.2, 1.4, 1.6])
    assert last_crossing(alphas, alphas - 1.31) == pytest.approx(1.31)
    assert line_crossing(alphas, 3 * (alphas - 1.31)) == pytest.approx(1.31)
    assert math.isnan(last_crossing(alphas, alphas)) and math.isnan(last_crossing(alphas, -alphas))
    shuffled = np.array([2, 0, 3, 1])
    assert last_crossing(alphas[shuffled], alphas[shuffled] - 1.31) == pytest.approx(1.31)


def test_a_run_that_lacks_a_point_is_left_out_and_two_are_needed() -> None:
    x = np.array([1.0, 1.5])
    runs = np.array([[-1.0, 1.0], [-1.0, 3.0], [np.nan, 9.0]])
    assert mean_crossing(x, runs).n == 2
    assert mean_crossing(x, runs).value == pytest.approx(7 / 6)  # the mean goes from −1 to 2
    assert math.isnan(mean_crossing(x, runs[1:]).value)


def test_the_interval_covers_the_truth() -> None:
    """300 sets of 12 noisy lines through 1.25: the 95 % interval covers it in 90 to 99 %."""
    rng, x = np.random.default_rng(5), np.array([1.0, 1.25, 1.5])
    estimates = [
        mean_crossing(x, x - 1.25 + 0.3 * rng.standard_normal((12, 3))) for _ in range(300)
    ]
    assert 270 <= sum(e.low < 1.25 < e.high for e in estimates) <= 297
