"""small-sample: fires when test items are too few for the effect; says how many would do."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.audit.checks.small_sample import NAME, items_needed, small_sample
from attnlab.measure.intervals import wilson


def test_the_clean_twin_passes() -> None:
    found = small_sample({"vanilla": (129, 500), "synthesizer": (50, 500)}, effect=0.158)
    assert (found.name, found.verdict, found.threshold) == (NAME, "pass", 0.158)
    assert found.number == pytest.approx(wilson(129, 500).half_width)


def test_a_difference_below_the_half_width_is_caught() -> None:
    found = small_sample({"synthesizer": (122, 500), "vanilla": (97, 500)}, effect=0.03)
    assert found.verdict == "fail" and "'synthesizer', 24.4% of 500 items" in found.why
    assert found.evidence["items_needed"] > 500


def test_ten_examples_are_caught() -> None:
    found = small_sample({"full": (9, 10), "head": (6, 10), "prefix": (8, 10)}, effect=0.2)
    assert found.verdict == "fail" and "'head'" in found.why


def test_no_item_at_all_is_caught() -> None:
    found = small_sample({"full": (0, 0)}, effect=0.2)
    assert found.verdict == "fail" and found.as_json()["number"] is None


def test_not_applicable() -> None:
    assert small_sample({}, 0.1).verdict == "not-applicable"
    assert small_sample({"a": (1, 2)}, 0.0).verdict == "not-applicable"


@given(st.integers(0, 100), st.floats(0.005, 0.45))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_items_needed_is_the_smallest_number(percent: int, half: float) -> None:
    """Checked at multiples of 100 items, where the share itself is the same."""
    n = items_needed(percent / 100, half)
    above = -(-n // 100)
    assert wilson(percent * above, 100 * above).half_width <= half * (1 + 1e-9)
    below = (n - 1) // 100
    if below:
        assert wilson(percent * below, 100 * below).half_width > half * (1 - 1e-9)
