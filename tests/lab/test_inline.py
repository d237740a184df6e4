import os
import signal
from pathlib import Path

import pytest

from attnlab.core.errors import StoppedError, StorageError
from attnlab.lab.execute import Silent, execute
from attnlab.lab.manifest import CHECKPOINTS
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.source import load_study_class
from attnlab.lab.trial import Trial

from .conftest import TINY, run_tiny, tiny

STEPS = """
import os
from attnlab.core.errors import StorageError
from attnlab.lab.study import Study
from attnlab.lab.trial import Outcome, TrialStopped

class Steps(Study):
    name = "steps"
    question = "Does a trial go on from its checkpoint?"
    def trials(self):
        return [self.trial(0)]
    def run(self, trial, context):
        context.checkpoints.mkdir(parents=True, exist_ok=True)
        file = context.checkpoints / "step"
        first = int(file.read_text()) if file.exists() else 0
        for step in range(first, 10):
            context.step(step + 1, 10, f"from {first}")
            if context.stopping():
                raise TrialStopped
            file.write_text(str(step + 1))
            if os.environ.get("DIE_AT") == str(step):
                os._exit(9)
            if os.environ.get("FULL_AT") == str(step):
                raise StorageError("no space left")
        return Outcome({"first": first})
    def claims(self, table):
        return []
"""


class Watch(Silent):
    """Progress that remembers, and sends a signal at one step."""

    def __init__(self, signal_at: int = -1) -> None:
        self.steps: list[tuple[int, int, str]] = []
        self.signal_at = signal_at

    def step(self, trial: Trial, done: int, of: int, words: str) -> None:
        self.steps.append((done, of, words))
        if done == self.signal_at:
            os.kill(os.getpid(), signal.SIGTERM)


def steps(tmp_path: Path, watch: Watch, engine: str = "inline") -> Record:
    file = tmp_path / "steps.py"
    file.write_text(STEPS)
    study = load_study_class(str(file)).at()
    return execute(Plan.of(study, str(file)), out=tmp_path / "runs", engine=engine, progress=watch)


def test_inline_gives_what_workers_give(tmp_path: Path) -> None:
    study = tiny(trials=4)
    inline = execute(Plan.of(study, str(TINY)), out=tmp_path / "a", engine="inline")
    assert inline.digest() == run_tiny(tmp_path / "b", workers=2, trials=4).digest()


def test_a_signal_stops_at_the_next_step_and_the_run_goes_on_from_there(tmp_path: Path) -> None:
    with pytest.raises(StoppedError, match="SIGTERM"):
        steps(tmp_path, Watch(signal_at=4))
    (run,) = (tmp_path / "runs").iterdir()
    assert Record.open(run).verify().ok and list((run / CHECKPOINTS).rglob("step"))
    watch = Watch()
    record = steps(tmp_path, watch)
    assert watch.steps[0] == (4, 10, "from 3") and len(watch.steps) == 7
    assert record.table().rows[0].metrics == {"first": 3}
    assert record.verify().ok and not list(run.glob(f"{CHECKPOINTS}/*"))


def test_a_full_disk_is_not_the_trials_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FULL_AT", "6")
    with pytest.raises(StorageError, match="no space"):
        steps(tmp_path, Watch())
    monkeypatch.delenv("FULL_AT")
    assert steps(tmp_path, Watch()).table().rows[0].metrics == {"first": 7}


def test_a_worker_that_dies_goes_on_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIE_AT", "4")
    record = steps(tmp_path, Watch(), engine="local")
    (row,) = record.table().rows
    assert row.state == "done" and row.metrics == {"first": 5}, "the second worker started at 5"
