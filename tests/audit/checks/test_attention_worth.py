"""A study that cannot see attention cannot compare its parts."""

import math

import pytest

from attnlab.audit.checks.attention_worth import attention_worth
from attnlab.lab.claim import apply_audits, judge
from attnlab.measure.intervals import mean_interval


def test_what_attention_is_worth_bounds_what_a_part_can_win() -> None:
    found = attention_worth([0.061, 0.067, 0.072], {"rotary": -0.035, "leak": -0.95})
    assert found.verdict == "pass" and found.undermines == ()
    assert (
        found.evidence["larger"] == ["leak"] and "leak" in found.why and "rotary" not in found.why
    )
    low = mean_interval([0.061, 0.067, 0.072]).low
    assert found.number == pytest.approx(low) and math.expm1(low) > 0


def test_attention_that_is_worth_nothing_fails_the_study() -> None:
    found = attention_worth([0.0011, -0.0013, 0.0007], {"rotary": -0.035})
    assert (found.verdict, found.undermines) == ("fail", ("rotary",))


@pytest.mark.parametrize("runs", [[0.3, -0.2, 0.11], [0.07], []])
def test_runs_that_cannot_tell_say_so_and_leave_comparisons_undecided(runs: list[float]) -> None:
    found = attention_worth(runs, {"rotary": -0.035})
    assert (found.verdict, found.undermines) == ("not-applicable", ("rotary",))
    claim = judge("rotary", "rotary wins", mean_interval([0.91, 0.92, 0.93]), below=1.0)
    assert claim.verdict == "holds"
    after = apply_audits([claim], [found])[0]
    assert after.verdict == "undecided" and "attention-worth" in after.why
