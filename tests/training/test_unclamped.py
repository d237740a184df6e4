"""The cosine schedule without a clamp: its learning rate rises again, and the audit reports it."""

import pytest

from attnlab.audit.checks.schedule import schedule
from attnlab.core.config import build
from attnlab.core.errors import UsageError
from attnlab.training.schedule import learning_rate
from attnlab.training.settings import TrainSettings

EPOCHS, HORIZON = 650, 200 * 128 / 127  # epochs run, and epochs until the cosine's first end


def rates(**changes: object) -> list[float]:
    given = {
        "steps": EPOCHS,
        "warmup_fraction": 0.0,
        "learning_rate": 1.0,
        "schedule": "unclamped",
        **changes,
    }
    s = build(TrainSettings, given)
    return [learning_rate(step, s) for step in range(s.steps)]


def test_a_run_longer_than_its_horizon_heats_up_again() -> None:
    found = rates(horizon=HORIZON / EPOCHS)
    assert found[0] == 1.0 and min(found) == 0.1
    assert max(range(300, 500), key=lambda e: found[e]) == 403 and found[403] > 0.9999
    assert found[605] == 0.1 and found[-1] == pytest.approx(0.117, abs=0.005)
    said = schedule(found)
    assert said.verdict == "fail" and "rises again" in said.why


def test_a_run_far_shorter_than_its_horizon_never_cools() -> None:
    found = rates(steps=10, horizon=20.0)
    assert found[-1] == pytest.approx(0.995, abs=0.001)
    assert schedule(found, floor=0.1).verdict == "fail"


def test_at_its_own_length_it_is_a_cosine_with_a_floor() -> None:
    assert schedule(rates(), floor=0.1).verdict == "pass"
    with pytest.raises(UsageError, match="option of 'unclamped'"):
        rates(schedule="cosine", horizon=0.5)
