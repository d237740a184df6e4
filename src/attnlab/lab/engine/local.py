"""Trials on this machine: worker processes, one trial at a time each, one thread each.

An accelerator holds one trial at a time (several large ones on a GPU are slower, not faster),
unless the study says that its trials are too small to fill one; the other workers go on with
trials that need none.
A worker that dies, hangs or runs out of memory costs its own trial only; a new one takes its place.
"""

import os
import selectors
import signal
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

from attnlab.core.errors import AttnlabError, UsageError
from attnlab.lab.artefacts import decode_arrays
from attnlab.lab.engine import Job, Result, Sink
from attnlab.lab.engine.process import WorkerProcess
from attnlab.lab.trial import Outcome, State, Trial

TICK_SECONDS = 0.1
ATTEMPTS = 3  # for a worker that dies; an exception is not tried again
NEAR_LIMIT = 0.8  # killed from outside with this share of its memory in use: out of memory


class LocalEngine:
    """Worker processes of this machine."""

    def execute(self, job: Job, sink: Sink) -> None:
        """Run every trial; on any exception, and at the end, no worker is left."""
        pool = _Pool(job, sink)
        try:
            pool.work()
        finally:
            pool.close()


def default_workers(device: str) -> int:
    """One a core this process may use; a GPU is not shared unless asked for."""
    if device != "cpu":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Pool:
    def __init__(self, job: Job, sink: Sink) -> None:
        wanted = default_workers(job.device) if job.workers is None else job.workers
        if wanted < 1:
            raise UsageError(f"workers must be at least 1, got {wanted}")
        self.job, self.sink = job, sink
        self.size = min(wanted, len(job.trials))
        self.queue = deque(job.trials)
        self.attempts: Counter[str] = Counter()
        self.failed_starts = 0
        self.workers: dict[int, WorkerProcess] = {}
        self.selector = selectors.DefaultSelector()
        limit = job.study.settings.trial_memory_gb * (1 << 30)
        self.memory_bytes = int(limit) if job.device == "cpu" else 0

    def work(self) -> None:
        """Until every trial has a result."""
        while self.queue or any(w.trial for w in self.workers.values()):
            self._staff()
            for key, _ in self.selector.select(TICK_SECONDS):
                self._hear(self.workers[key.fd])
            self._watch_the_clock()
            self.sink.tick()

    def close(self) -> None:
        """End all workers."""
        for worker in list(self.workers.values()):
            self._dismiss(worker)
        self.selector.close()

    def _staff(self) -> None:
        """Have as many workers as there is work for; idle ones take what came back."""
        for worker in self.workers.values():
            if worker.ready and worker.trial is None:
                self._hand_next(worker)
        busy = sum(w.trial is not None for w in self.workers.values())
        while len(self.workers) < min(self.size, busy + len(self.queue)):
            worker = WorkerProcess(self.job.scratch)
            self.workers[worker.results] = worker
            self.selector.register(worker.results, selectors.EVENT_READ)
            worker.send(self._introduction())

    def _introduction(self) -> dict[str, Any]:
        return {
            "source": vars(self.job.source),
            "settings": self.job.study.settings_json(),
            "device": self.job.device,
            "memory_bytes": self.memory_bytes,
            "scratch": str(self.job.scratch.resolve()),
            "checkpoints": str(self.job.checkpoints.resolve()),
        }

    def _hear(self, worker: WorkerProcess) -> None:
        messages = worker.receive()
        if messages is None:
            self._bury(worker)
            return
        for message, blob in messages:
            if "unfit" in message:
                raise UsageError(f"a worker cannot load the study: {message['unfit']}")
            if worker.trial is not None:
                self._finish(worker, result_of(worker.trial, message, blob))
                if message["state"] == "oom":  # a new process has its memory whole
                    self._dismiss(worker)
                    return
            worker.ready, self.failed_starts = True, 0
            self._hand_next(worker)

    def _hand_next(self, worker: WorkerProcess) -> None:
        taken = not self.job.study.shares_accelerator and any(
            w.trial.on_accelerator for w in self.workers.values() if w.trial
        )
        for index, trial in enumerate(self.queue):
            if not (taken and trial.on_accelerator):
                del self.queue[index]
                worker.hand(trial, self.job.study.settings.trial_seconds)
                return

    def _finish(self, worker: WorkerProcess, result: Result) -> None:
        worker.trial = None
        self.sink.accept(result)

    def _watch_the_clock(self) -> None:
        now = time.monotonic()
        for worker in list(self.workers.values()):
            worker.look()
            if now < worker.deadline or (worker.ready and worker.trial is None):
                continue
            if worker.trial is None:
                raise AttnlabError(f"a worker did not start:\n{worker.log_tail()}")
            limit = self.job.study.settings.trial_seconds
            error = f"stopped after {limit:g} s (trial_seconds)\n{worker.log_tail()}".strip()
            cost = {"seconds": worker.elapsed}
            result = Result(worker.trial, "timeout", error=error, cost=cost)
            self._dismiss(worker)
            self._finish(worker, result)

    def _bury(self, worker: WorkerProcess) -> None:
        """A worker died: once more, or say what happened to its trial."""
        code, peak = worker.end()
        log, trial, cost = worker.log_tail(), worker.trial, {"seconds": worker.elapsed}
        self._dismiss(worker)
        if trial is None:
            self.failed_starts += not worker.ready
            if self.failed_starts >= ATTEMPTS:
                raise AttnlabError(f"workers end before their first trial ({_cause(code)}):\n{log}")
            return
        state: State = "oom" if self._was_out_of_memory(code, peak) else "crashed"
        self.attempts[trial.id] += 1
        if state == "crashed" and self.attempts[trial.id] < ATTEMPTS:
            self.queue.append(trial)
            return
        times = self.attempts[trial.id]
        error = f"worker ended: {_cause(code)}, {times} of {times} times\n{log}".strip()
        self._finish(worker, Result(trial, state, error=error, cost=cost))

    def _was_out_of_memory(self, code: int, peak: int) -> bool:
        """SIGKILL near the limit: the kernel leaves no better note."""
        share = _machine_memory() // self.size
        limit = min(self.memory_bytes or share, share)
        return code == -signal.SIGKILL and peak >= NEAR_LIMIT * limit

    def _dismiss(self, worker: WorkerProcess) -> None:
        self.selector.unregister(worker.results)
        del self.workers[worker.results]
        worker.close()


def result_of(trial: Trial, message: dict[str, Any], blob: bytes) -> Result:
    """A worker's message as a result."""
    outcome = None
    if "metrics" in message:
        outcome = Outcome(
            metrics=message["metrics"],
            reasons=message["reasons"],
            arrays=decode_arrays(blob) if blob else {},
            curves={
                key: [float("nan") if v is None else v for v in values]
                for key, values in message["curves"].items()
            },
            samples=message["samples"],
            documents=message["documents"],
        )
    return Result(trial, message["state"], outcome, message.get("error", ""), message["cost"])


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _machine_memory() -> int:
    """Bytes of this machine, or of the container this process lives in."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no cgroup, or "max"
        return whole
