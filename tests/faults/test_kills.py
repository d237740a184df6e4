"""Kills at random instants: 50 of a training, 30 of 500 trials; and trials that go bad."""

from collections import Counter
from pathlib import Path

import pytest

from tests.lab.conftest import Processes, run_tiny
from tests.lab.test_kill import kill_until_done
from tests.training.conftest import crash

from .conftest import Note

pytestmark = [pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(1800)]
SEED = 20261116
BAD = {
    "segfault": "crashed",
    "vanish": "crashed",
    "memory": "oom",
    "loop": "timeout",
    "exception": "failed",
    "nan": "diverged",
}


def test_fifty_kills_of_a_training(room: Path, note: Note) -> None:
    first, *kills, last = crash("random", str(room), "50", str(SEED))
    same = last == {"again": 0, "digest": first["undisturbed"]}
    hit = [kill for kill in kills if kill["code"] == -9]
    note("random kills of a training", len(kills), len(hit), int(not same))
    assert same, f"seed {SEED}"
    assert len(kills) == 50 and len(hit) > 25 and sum(kill["inside"] for kill in kills) > 3


def test_thirty_kills_of_five_hundred_trials(room: Path, note: Note) -> None:
    processes = Processes(room)
    try:
        interrupted = kill_until_done(processes, room, kills=30, trials=500)
    finally:
        for process in processes.started:
            process.kill()
            process.communicate()
    note("random kills of a sweep, in its middle", 30, interrupted)


def test_bad_trials_sink_none_of_the_others(room: Path, note: Note) -> None:
    record = run_tiny(
        room, workers=2, trials=94, bad=list(BAD), trial_seconds=4.0, trial_memory_gb=1.0
    )
    states = Counter(row.state for row in record.table())
    found = {row.config["kind"]: row for row in record.table() if row.config["kind"] != "ok"}
    assert states["done"] == 94 and len(record.table()) == 100
    assert {kind: row.state for kind, row in found.items()} == BAD
    assert all(row.error or row.state == "diverged" for row in found.values())
    assert record.verify().ok
    note("bad trials among 94 good ones", len(BAD), len(found), 94 - states["done"])
