"""Run what is missing of a study, and only that.

with running(plan, out=out) as record:
    ...  # every trial has ended; claims, figures, report; then record.seal()
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import attnlab
from attnlab.core.devices import resolve_device
from attnlab.core.errors import StoppedError, UsageError
from attnlab.core.files import PARTIAL
from attnlab.lab.artefacts import remove_folder
from attnlab.lab.engine import Engine, Job, Result, engine_named
from attnlab.lab.manifest import CHECKPOINTS
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.source import Source
from attnlab.lab.stop import Stop, stop_on_signals
from attnlab.lab.trial import FINISHED, Trial


class Progress(Protocol):
    """Who shows how far a run is. `advance` comes when a trial is on the disk, not before."""

    def start(self, total: int, already_done: int) -> None:
        """Trials of the run, and how many need not run."""

    def advance(self, trial: Trial, state: str) -> None:
        """One more is stored."""

    def step(self, trial: Trial, done: int, of: int, words: str) -> None:
        """How far one trial is."""

    def stop(self) -> None:
        """Nothing more will come."""


class Silent(Progress):
    """Shows nothing."""


@contextmanager
def running(
    plan: Plan,
    *,
    out: Path,
    workers: int | None = None,
    engine: str | Engine = "local",
    progress: Progress | None = None,
    accept_edits: bool = False,
) -> Iterator[Record]:
    """The record with every trial ended and the lock held; leave the block to let go of it.

    `accept_edits`: stored trials stay valid although the study's code was edited since.
    StoppedError after a signal, RunInUseError when another process owns the run; what was finished
    is stored in every case.
    """
    chosen = engine_named(engine) if isinstance(engine, str) else engine
    study, trials = plan.study, plan.trials
    device = study.settings.device if chosen.elsewhere else resolve_device(study.settings.device)
    record = Record.create_or_open(out, plan)
    with record.lock():
        finished = record.finished_ids()
        missing = [trial for trial in trials if trial.id not in finished]
        if finished and _edited(record, plan.source):
            if not accept_edits:
                raise UsageError(_refusal(record, plan.source))
            record.begin()  # its conclusions are drawn again, by the code as it is now
        if missing:
            record.begin()
            # named so that a leftover of it is removed like that of any killed write
            scratch = record.path / f"{PARTIAL}scratch-{os.getpid()}"
            job = Job(
                plan.source, study, missing, device, scratch, record.path / CHECKPOINTS, workers
            )
            with stop_on_signals() as stop:
                sink = _Sink(record, progress or Silent(), stop)
                sink.progress.start(len(trials), len(trials) - len(missing))
                try:
                    try:
                        chosen.execute(job, sink)
                        sink.settle()
                    finally:
                        sink.progress.stop()
                        shutil.rmtree(job.scratch, ignore_errors=True)
                    sink.settle()  # a signal that came meanwhile would be lost with its handler
                except StoppedError:
                    record.seal(complete=False)  # as it is, so that any later damage shows
                    raise
        yield record


def execute(
    plan: Plan,
    *,
    out: Path,
    workers: int | None = None,
    engine: str | Engine = "local",
    progress: Progress | None = None,
) -> Record:
    """`running` for those who want the table only: sealed, without claims or figures."""
    with running(plan, out=out, workers=workers, engine=engine, progress=progress) as record:
        record.seal()
    return record


class _Sink:
    """Results into the record; a trial is announced once it is committed."""

    def __init__(self, record: Record, progress: Progress, stop: Stop) -> None:
        self.record, self.progress, self.stop = record, progress, stop
        self._unannounced: list[Result] = []

    def accept(self, result: Result) -> None:
        self.record.add(result.trial, result.state, result.outcome, result.error, result.cost)
        self._unannounced.append(result)
        self._announce()

    @property
    def stopping(self) -> bool:
        return bool(self.stop.signal_number)

    def step(self, trial: Trial, done: int, of: int, words: str) -> None:
        self.progress.step(trial, done, of, words)

    def tick(self) -> None:
        self.record.flush_if_due()
        self._announce()
        if self.stop.signal_number:
            self.settle()

    def settle(self) -> None:
        """Commit all, then answer a signal."""
        self.record.flush()
        self._announce()
        self.stop.raise_if_asked("what was finished is stored; the same command goes on from there")

    def _announce(self) -> None:
        if not self.record.pending:
            for result in self._unannounced:
                if result.state in FINISHED:  # a crashed one goes on from its checkpoint
                    remove_folder(self.record.path / CHECKPOINTS / result.trial.id)
                self.progress.advance(result.trial, result.state)
            self._unannounced.clear()


def _edited(record: Record, source: Source) -> bool:
    """Whether the study's code differs from the code that last wrote to this run.

    A release of attnlab raises a built-in study's `version` itself where its numbers change.
    """
    before, last = record.code_sha256(), record.sessions()[-1]
    released = not source.path and last.get("attnlab") != attnlab.__version__
    return before is not None and source.sha256 != before and not released


def _refusal(record: Record, source: Source) -> str:
    what = f"{source.name}.py, or a module it imports," if source.path else f"study {source.name}"
    return (
        f"{what} was edited since run {record.name}: raise `version` in the study to run its "
        "trials again; or, if only claims, figures or words were edited, add --accept-edits"
    )
