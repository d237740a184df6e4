"""Calibration, abstaining and AUROC against loops and limits; intervals that cover."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.core.seeds import Seed
from attnlab.measure.calibration import (
    auroc,
    calibration,
    calibration_bins,
    selective_accuracy,
)

FEW = st.lists(st.integers(0, 5), min_size=1, max_size=13)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(FEW, FEW)
def test_auroc_is_the_share_of_pairs(high: list[int], low: list[int]) -> None:
    pairs = [(h > x) + (h == x) / 2 for h in high for x in low]
    found = auroc(high, low)
    assert found.value == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)
    assert 0 <= found.low <= found.value <= found.high <= 1
    turned = auroc(low, high)
    assert turned.value == pytest.approx(1 - found.value) and turned.low == pytest.approx(
        1 - found.high, abs=1e-9
    )


def test_perfect_separation_has_an_interval_that_more_items_shorten() -> None:
    few, many = auroc([2] * 5, [1] * 7), auroc([2] * 50, [1] * 70)
    assert few.value == many.value == few.high == 1
    assert 0.5 < few.low < many.low < 1
    assert np.isnan(auroc([], [1]).value) and not auroc([], [1]).has_interval


def test_the_interval_of_auroc_covers_the_truth_as_often_as_it_says() -> None:
    """Scores N(1, 1) and N(0, 1): P = Φ(1/√2) = 0.760; 400 draws of 31 and 23 items."""
    rng, truth = Seed(3).numpy_generator(), 0.7602499389065233
    hits = 0
    for _ in range(400):
        found = auroc(rng.normal(1, 1, 31), rng.normal(0, 1, 23))
        hits += found.low <= truth <= found.high
    assert 0.915 <= hits / 400 <= 1.0  # 95 % less 3.2 standard errors; it may cover more


def test_calibration_of_the_calibrated_and_of_the_sure() -> None:
    rng = Seed(5).numpy_generator()
    p = rng.random(20_011)
    right = rng.random(20_011) < p
    found = calibration(p, right)
    assert found.error < 0.015 and found.brier == pytest.approx(1 / 6, abs=0.006)  # E p(1−p)
    assert sum(b.items for b in found.bins) == 20_011 and len(found.bins) == 10
    assert all(b.accuracy.low - 0.02 < b.confidence < b.accuracy.high + 0.02 for b in found.bins)
    sure = calibration([1.0] * 7, [True, False, False, False, False, False, False], bins=3)
    assert sure.error == pytest.approx(6 / 7) and sure.brier == pytest.approx(6 / 7)


def test_bins_of_several_models_have_intervals_over_models_and_items() -> None:
    """Models that are right with 0.3 or 0.7, whatever their confidence, do not add up to one."""
    rng = Seed(7).numpy_generator()
    p = rng.random((6, 500))
    differ = [(row, rng.random(500) < (0.3 if i % 2 else 0.7)) for i, row in enumerate(p)]
    alike = [(row, rng.random(500) < 0.5) for row in p]
    for models, shortest, longest in ((differ, 0.38, 0.6), (alike, 0.1, 0.26)):
        found = calibration_bins(models)
        assert [b.items for b in found] == [300] * 10
        width = np.mean([b.accuracy.high - b.accuracy.low for b in found])
        assert shortest < width < longest
        assert all(b.accuracy.n == 6 for b in found)
    (one,) = calibration_bins([(p[0], [True] * 500)], 1)
    assert (one.accuracy.low, one.accuracy.high) == pytest.approx((500 / 503.8415, 1), abs=1e-6)


def test_abstaining_keeps_the_confident_and_ties_together() -> None:
    found = selective_accuracy([0.9, 0.5, 0.5, 0.1], [True, True, False, False])
    assert found.coverage.tolist() == [0.25, 0.75, 1.0]
    assert found.accuracy == pytest.approx([1.0, 2 / 3, 0.5])
    assert found.threshold.tolist() == [0.9, 0.5, 0.1]
    assert found.area == pytest.approx(0.25 + 0.5 * 2 / 3 + 0.25 * 0.5)
    one = selective_accuracy([0.3] * 5, [True, False, False, False, True])
    assert one.coverage.tolist() == [1.0] and one.area == pytest.approx(0.4)


@pytest.mark.parametrize("p", [[], [0.5, 0.5], [1.5], [[0.5]]])
def test_what_is_no_confidence_an_item_is_refused(p: list[float]) -> None:
    with pytest.raises(ValueError, match="confidence"):
        calibration(p, [True])
