"""schedule: fires on a cosine that re-heats, on one that never ends, on a climb; ours passes."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.audit.checks.schedule import NAME, schedule
from attnlab.training.schedule import learning_rate
from attnlab.training.settings import ScheduleName, TrainSettings


def course(step: int, final: int, peak: float = 6e-3, warmup: int = 10) -> float:
    """minGPT's: a cosine of tokens seen, not clamped at its end; floor 10 %."""
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / (final - warmup)
    return peak * max(0.1, 0.5 * (1 + math.cos(math.pi * progress)))


@given(
    st.integers(2, 307),
    st.sampled_from(["cosine", "linear", "constant"]),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.sampled_from([0.0, 0.1, 1.0]),
)
@settings(max_examples=150, derandomize=True, deadline=None)
def test_our_own_schedules_pass(
    steps: int, kind: ScheduleName, warmup: float, final: float
) -> None:
    chosen = TrainSettings(
        steps=steps, schedule=kind, warmup_fraction=warmup, final_fraction=final, learning_rate=0.01
    )
    floor = 0.01 * (1.0 if kind == "constant" else final)
    if round(warmup * steps) < steps - 1:
        found = schedule(lambda s: learning_rate(s, chosen), steps, peak=0.01, floor=floor)
        assert (found.name, found.verdict) == (NAME, "pass"), found.why
    assert schedule(lambda s: learning_rate(s, chosen), steps).verdict == "pass"


def test_a_cosine_past_its_end_reheats() -> None:
    """200 epochs planned, 650 run: the floor, back to the peak, the floor again, and up."""
    found = schedule(lambda s: course(s, final=200), 650, floor=6e-4)
    assert found.verdict == "fail" and "rises again after step" in found.why
    start, end = found.evidence["rises"][0]
    assert 150 < start < 250 and end == pytest.approx(390, abs=2)
    assert len(found.evidence["rises"]) == 2
    assert schedule(lambda s: course(s, final=650), 650, floor=6e-4).verdict == "pass"


def test_a_decay_that_never_comes_is_caught() -> None:
    found = schedule(lambda s: course(s, final=5000), 100, floor=6e-4)
    assert found.verdict == "fail" and "its floor is 10.0%" in found.why
    assert found.number is not None and found.number > 0.99


def test_a_rate_that_only_climbs_is_caught() -> None:
    found = schedule([0.1 * (s + 1) for s in range(11)])
    assert found.verdict == "fail" and "rises until step 10 of 11" in found.why


def test_a_rate_that_runs_backwards_is_caught() -> None:
    for warmup in (1, 10):
        found = schedule([course(99 - s, final=100, warmup=warmup) for s in range(100)])
        assert found.verdict == "fail" and "most of the run" in found.why


def test_restarts_and_late_rises_are_caught() -> None:
    assert schedule([1.0, 0.5, 0.1, 1.0, 0.5, 0.1]).evidence["rises"] == [[2, 3]]
    assert schedule([1.0, 1.0, 0.5, 0.5, 0.6, 0.5]).verdict == "fail"


def test_a_peak_that_is_never_reached_is_caught() -> None:
    found = schedule(lambda s: course(s, final=20, warmup=100), 50, peak=6e-3)
    assert found.verdict == "fail"
    rates = [0.1, 0.2, 0.3, 0.2, 0.1]
    assert "never its peak 0.6" in schedule(rates, peak=0.6).why
    assert schedule(rates, peak=0.3).verdict == "pass"


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf])
def test_a_rate_that_is_none_is_caught(bad: float) -> None:
    found = schedule([0.3, 0.2, bad, 0.1])
    assert found.verdict == "fail" and f"step 2 is {bad}" in found.why
    assert schedule([0.0, 0.0, 0.0]).verdict == "fail"


def test_constant_with_warm_up_and_steps_pass() -> None:
    assert schedule([0.1, 0.2, 0.3, 0.3, 0.3], floor=0.3).verdict == "pass"
    assert schedule([1.0] * 5 + [0.1] * 5 + [0.01] * 5, floor=0.01).verdict == "pass"
    assert schedule([1.0] * 5 + [0.1] * 5, floor=0.01).verdict == "fail"


def test_torch_schedulers() -> None:
    def made(length: int, steps: int) -> list[float]:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
        scheduler, rates = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, length), []
        for _ in range(steps):
            rates.append(float(optimizer.param_groups[0]["lr"]))
            optimizer.step()
            scheduler.step()
        return rates

    assert schedule(made(97, 97), floor=0.0, peak=0.3).verdict == "pass"
    assert schedule(made(29, 97), floor=0.0).verdict == "fail"


def test_not_applicable() -> None:
    assert schedule([]).verdict == "not-applicable"
    assert schedule([0.1]).verdict == "not-applicable"
    with pytest.raises(ValueError, match="number of steps"):
        schedule(lambda step: 0.1)
