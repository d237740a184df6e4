"""Thousands of small trials: the lab itself must not be what one waits for."""

import os
import time
from pathlib import Path

import psutil
import pytest

from attnlab.lab.execute import Silent, execute
from attnlab.lab.plan import Plan
from attnlab.lab.trial import Trial

from .conftest import TINY, run_tiny, tiny


class Watch(Silent):
    """Memory and open files of the driver after each thousand trials."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []
        self.count = 0

    def advance(self, trial: Trial, state: str) -> None:
        self.count += 1
        if self.count % 1000 == 0:
            me = psutil.Process(os.getpid())
            self.seen.append((me.memory_info().rss, me.num_fds()))


@pytest.mark.slow
def test_ten_thousand_trials_in_a_minute(tmp_path: Path) -> None:
    study, watch = tiny(trials=10_000, sleep=0.0, plain=True), Watch()
    started = time.monotonic()
    record = execute(Plan.of(study, str(TINY)), out=tmp_path, progress=watch)
    assert time.monotonic() - started <= 60
    first, last = watch.seen[0], watch.seen[-1]
    assert last[0] < 1.1 * first[0] and last[1] <= first[1]
    started = time.monotonic()
    assert record.verify().ok and len(record.table().done()) == 10_000
    assert time.monotonic() - started <= 10


def test_three_hundred_trials_take_seconds(tmp_path: Path) -> None:
    """A coarse guard on every change: a wait for each trial would take far longer."""
    started = time.monotonic()
    run_tiny(tmp_path, workers=2, trials=300, sleep=0.0, plain=True)
    assert time.monotonic() - started <= 20
