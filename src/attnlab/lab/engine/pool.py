"""A pool of worker processes on one machine: one trial at a time each, one thread each.

A worker that dies, hangs or runs out of memory costs its own trial only; a new one takes its place.
"""

import os
import selectors
import signal
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.core.errors import AttnlabError, UsageError
from attnlab.lab.engine import Job
from attnlab.lab.engine.process import WorkerProcess
from attnlab.lab.trial import State, Trial

TICK_SECONDS = 0.1
ATTEMPTS = 3  # for a worker that dies; an exception is not tried again
NEAR_LIMIT = 0.8  # killed from outside with this share of its memory in use: out of memory
Message = dict[str, Any]
Deliver = Callable[[Trial, Message, bytes], None]  # how a trial ended, and its arrays


@dataclass(frozen=True)
class Terms:
    """What a pool must know of a job; plain values, so that they can be sent to another machine."""

    introduction: Message  # what a worker is told first
    seconds: float  # a trial may take
    shares_accelerator: bool

    @classmethod
    def of(cls, job: Job) -> "Terms":
        """The terms of a job on the machine it was made on."""
        limit = int(job.study.settings.trial_memory_gb * (1 << 30)) if job.device == "cpu" else 0
        introduction = {
            "source": vars(job.source),
            "settings": job.study.settings_json(),
            "device": job.device,
            "memory_bytes": limit,  # a trial may hold; 0: no limit
            "scratch": str(job.scratch.resolve()),
            "checkpoints": str(job.checkpoints.resolve()),
        }
        return cls(introduction, job.study.settings.trial_seconds, job.study.shares_accelerator)


class Pool:
    """Up to `size` workers that take trials from `queue` and `deliver` how each ended."""

    def __init__(self, terms: Terms, size: int, deliver: Deliver, tick: Callable[[], None]) -> None:
        self.terms, self.size, self.deliver, self.tick = terms, size, deliver, tick
        self.queue: deque[Trial] = deque()
        self.beside = size  # processes that share this machine's memory
        self._attempts: Counter[str] = Counter()
        self._failed_starts = 0
        self._workers: dict[int, WorkerProcess] = {}
        self._selector = selectors.DefaultSelector()
        self._checked_at = 0.0

    def work(self) -> None:
        """Until every trial of the queue has ended."""
        while self.queue or any(w.trial for w in self._workers.values()):
            self._start_workers()
            for key, _ in self._selector.select(TICK_SECONDS):
                self._receive(self._workers[key.fd])
            self._check_deadlines()
            self.tick()

    def close(self) -> None:
        """End all workers."""
        for worker in list(self._workers.values()):
            self._remove(worker)
        self._selector.close()

    def _start_workers(self) -> None:
        """Start as many workers as there is work for; idle ones take what came back."""
        for worker in self._workers.values():
            if worker.ready and worker.trial is None:
                self._assign(worker)
        busy = sum(w.trial is not None for w in self._workers.values())
        while len(self._workers) < min(self.size, busy + len(self.queue)):
            worker = WorkerProcess(Path(self.terms.introduction["scratch"]))
            self._workers[worker.results] = worker
            self._selector.register(worker.results, selectors.EVENT_READ)
            worker.send(self.terms.introduction)

    def _receive(self, worker: WorkerProcess) -> None:
        messages = worker.receive()
        if messages is None:
            self._handle_death(worker)
            return
        for message, blob in messages:
            if "unfit" in message:
                raise UsageError(f"a worker cannot load the study: {message['unfit']}")
            if worker.trial is not None:
                self._finish(worker, message, blob)
                if message["state"] == "oom":  # a new process has its memory whole
                    self._remove(worker)
                    return
            worker.ready, self._failed_starts = True, 0
            self._assign(worker)

    def _assign(self, worker: WorkerProcess) -> None:
        if worker.dead:
            return
        taken = not self.terms.shares_accelerator and any(
            w.trial.on_accelerator for w in self._workers.values() if w.trial
        )
        for index, trial in enumerate(self.queue):
            if not (taken and trial.on_accelerator):
                del self.queue[index]
                worker.assign(trial, self.terms.seconds)
                return

    def _finish(self, worker: WorkerProcess, message: Message, blob: bytes = b"") -> None:
        trial, worker.trial = worker.trial, None
        assert trial is not None
        self.deliver(trial, message, blob)

    def _check_deadlines(self) -> None:
        now = time.monotonic()
        if now - self._checked_at < TICK_SECONDS:
            return
        self._checked_at = now
        for worker in list(self._workers.values()):
            worker.check()
            idle = worker.ready and worker.trial is None
            if not worker.dead and (idle or now < worker.deadline):
                continue
            # messages that have arrived count: this process may have been stopped, its workers not
            heard, dead = worker.heard, worker.dead
            self._receive(worker)
            if self._workers.get(worker.results) is worker:
                if dead:
                    self._handle_death(worker)
                elif worker.heard == heard:
                    self._time_out(worker)

    def _time_out(self, worker: WorkerProcess) -> None:
        """End a worker that is over its time limit."""
        if worker.trial is None:
            raise AttnlabError(f"a worker did not start:\n{worker.log_tail()}")
        limit, log = self.terms.seconds, worker.log_tail()
        message = {
            "state": "timeout",
            "error": f"stopped after {limit:g} s (trial_seconds)\n{log}".strip(),
            "cost": {"seconds": worker.elapsed},
        }
        self._remove(worker)
        self._finish(worker, message)

    def _handle_death(self, worker: WorkerProcess) -> None:
        """Run the trial of a dead worker again, or deliver what happened to it."""
        code, peak = worker.end()
        log, trial, cost = worker.log_tail(), worker.trial, {"seconds": worker.elapsed}
        self._remove(worker)
        if trial is None:
            self._failed_starts += not worker.ready
            if self._failed_starts >= ATTEMPTS:
                raise AttnlabError(f"workers end before their first trial ({_cause(code)}):\n{log}")
            return
        state: State = "oom" if self._was_out_of_memory(code, peak) else "crashed"
        self._attempts[trial.id] += 1
        if state == "crashed" and self._attempts[trial.id] < ATTEMPTS:
            self.queue.append(trial)
            return
        times = self._attempts[trial.id]
        error = f"worker ended: {_cause(code)}, {times} of {times} times\n{log}".strip()
        self._finish(worker, {"state": state, "error": error, "cost": cost})

    def _was_out_of_memory(self, code: int, peak: int) -> bool:
        """SIGKILL near the limit: the kernel leaves no better note."""
        share = _machine_memory() // self.beside
        limit = min(self.terms.introduction["memory_bytes"] or share, share)
        return code == -signal.SIGKILL and peak >= NEAR_LIMIT * limit

    def _remove(self, worker: WorkerProcess) -> None:
        self._selector.unregister(worker.results)
        del self._workers[worker.results]
        worker.close()


def default_workers(device: str) -> int:
    """One a core this process may use; a GPU is not shared unless asked for."""
    if device != "cpu":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
