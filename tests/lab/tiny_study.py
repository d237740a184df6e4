"""A study of a few milliseconds a trial, with one trial of every kind of misfortune."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np

from attnlab.lab.claim import Claim
from attnlab.lab.study import Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext


class TinySettings(StudySettings):
    trials: int = 8
    bad: tuple[str, ...] = ()
    sleep: float = 0.002
    plain: bool = False  # no artefacts: for measuring the lab itself
    trial_seconds: float = 30.0
    trial_memory_gb: float = 2.0


class Tiny(Study):
    name = "tiny"
    question = "Does the lab keep what it is given?"
    Settings = TinySettings

    @property
    def own(self) -> TinySettings:
        return cast(TinySettings, self.settings)

    def trials(self) -> Sequence[Trial]:
        good = [self.trial(seed, kind="ok") for seed in range(self.own.trials)]
        return good + [self.trial(0, kind=kind) for kind in self.own.bad]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        counter = os.environ.get("TINY_COUNTER")
        if counter:  # one short append is atomic: every execution leaves one line
            with open(counter, "ab", buffering=0) as file:
                file.write(f"{trial.id}\n".encode())
        print("a study may print what it likes")
        if trial.config["kind"] != "ok":
            return MISFORTUNES[trial.config["kind"]]()
        time.sleep(self.own.sleep)
        rng = trial.stream.child("x").numpy_generator()
        values = rng.normal(size=5)
        metrics = {"mean": float(values.mean()), "count": 5, "name": "x", "flag": True}
        if self.own.plain:
            return Outcome(metrics=metrics)
        assert context.scratch is not None
        Path(context.scratch, "note").write_text("scratch works")
        return Outcome(
            metrics=metrics,
            arrays={"values": values, "square": np.outer(values, values).T},
            curves={"sum": [float(v) for v in values.cumsum()]},
            samples=[f"mean {values.mean():.3f}"],
            cost={"evaluations": 5},
        )

    def claims(self, table: Table) -> list[Claim]:
        return []


def fail() -> Outcome:
    raise ValueError("on purpose")


def leave() -> Outcome:
    raise SystemExit(3)


def segfault() -> Outcome:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError("still alive")


def vanish() -> Outcome:
    os._exit(7)


def loop() -> Outcome:
    while True:
        time.sleep(0.01)


def allocate() -> Outcome:
    return Outcome(metrics={"sum": float(np.ones(1 << 31).sum())})  # 16 GiB


def be_killed() -> Outcome:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def be_killed_for_memory() -> Outcome:
    """What the kernel does to a process when memory runs out: no word, SIGKILL."""
    held = np.ones(104_000_000)  # 793 MiB, near a limit of 1024
    time.sleep(0.5)  # long enough to be seen by a driver that is larger than that itself
    return be_killed() if held[0] else Outcome({})


def leave_a_child() -> Outcome:
    """The child holds all that its parent held, the pipe to the driver too."""
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
    return be_killed()


def chatter() -> Outcome:
    """Prints until somebody cuts its log, then its last words."""
    size = 0
    while os.fstat(1).st_size >= size:
        size = os.fstat(1).st_size
        assert size < 1 << 28, "nobody cut it"
        os.write(1, b"again " * 5003)
        time.sleep(0.001)  # a page cache takes 256 MiB faster than a driver looks
    os.write(1, b"\nlast words\n")
    return vanish()


def diverge() -> Outcome:
    return Outcome(metrics={"loss": float("nan"), "steps": 3})


def return_nonsense() -> Outcome:
    return cast(Outcome, {"loss": 1.0})


MISFORTUNES = {
    "exception": fail,
    "exit": leave,
    "segfault": segfault,
    "vanish": vanish,
    "loop": loop,
    "memory": allocate,
    "killed": be_killed,
    "oom-killed": be_killed_for_memory,
    "orphan": leave_a_child,
    "chatter": chatter,
    "nan": diverge,
    "wrong": return_nonsense,
}
