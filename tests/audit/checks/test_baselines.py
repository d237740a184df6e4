"""baselines: fires on a claim that needs no model; silent on one that is clear of them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.audit.checks.baselines import NAME, answer_baselines, baselines
from attnlab.measure.intervals import Estimate, mean_interval, wilson

GOLD = ["London"] * 25 + ["Paris"] * 11 + [f"place {i}" for i in range(464)]


def test_the_clean_twin_passes() -> None:
    found = baselines(wilson(122, 500), answer_baselines(GOLD, classes=466), ceiling=479 / 500)
    assert (found.name, found.verdict, found.threshold) == (NAME, "pass", 0.05)
    assert found.number == pytest.approx(wilson(122, 500).low)
    assert "majority" in found.why


def test_26_of_500_is_always_london() -> None:
    found = baselines(wilson(26, 500), answer_baselines(GOLD))
    assert found.verdict == "fail"
    assert "cannot be told from majority (0.05)" in found.why
    assert found.evidence["not_beaten"] == ["majority"]


def test_worse_than_a_baseline_is_caught() -> None:
    found = baselines(wilson(3, 500), {"majority": 0.05, "chance": 1 / 466})
    assert found.verdict == "fail" and "is worse than majority" in found.why


def test_the_strongest_baseline_decides() -> None:
    known = {"chance": 0.5, "majority": 0.62}
    assert baselines(wilson(2033, 3270), {"chance": 0.5}).verdict == "pass"
    found = baselines(wilson(2033, 3270), known)
    assert found.verdict == "fail" and found.evidence["not_beaten"] == ["majority"]


def test_beyond_the_ceiling_is_caught() -> None:
    found = baselines(wilson(490, 500), {"majority": 0.05}, ceiling=0.9)
    assert found.verdict == "fail" and "beyond the ceiling 0.9" in found.why


def test_a_loss_must_be_below_its_baseline() -> None:
    runs = [101.0, 103.0, 102.0]
    known = {"uniform": 4000.0, "bigram": 131.0}
    found = baselines(mean_interval(runs), known, lower_is_better=True)
    assert found.verdict == "pass" and "bigram" in found.why
    worse = baselines(mean_interval([r + 30 for r in runs]), known, lower_is_better=True)
    assert worse.verdict == "fail" and "cannot be told from bigram" in worse.why
    beyond = baselines(mean_interval(runs), known, ceiling=110.0, lower_is_better=True)
    assert beyond.verdict == "fail"


def test_not_applicable() -> None:
    assert baselines(wilson(26, 500), {}).verdict == "not-applicable"
    assert baselines(Estimate(0.4), {"chance": 0.1}).verdict == "not-applicable"


def test_baselines_come_from_the_gold_answers() -> None:
    found = answer_baselines(GOLD, train=["Paris", "Paris", "Rome"], classes=4)
    assert found == {
        "majority": 25 / 500,
        "chance": 0.25,
        "most frequent training answer": 11 / 500,
    }
    assert answer_baselines([]) == {}


@given(st.integers(0, 211), st.floats(0, 1))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_passes_exactly_when_the_interval_is_above(right: int, baseline: float) -> None:
    claim = wilson(right, 211)
    passes = baselines(claim, {"it": baseline}).verdict == "pass"
    assert passes == (claim.low > baseline)
