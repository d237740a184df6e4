"""Trials on a Ray cluster: the same processes, ids and results as on this machine.

The driver alone writes the record; nodes and their workers may die at any instant. Ray itself tries
nothing again: the driver queues again what a lost task had not reported, so each trial is recorded
once, by whichever attempt reports first. Tiny trials share a task of about a second.
"""

import json
import math
import secrets
import time
from collections import Counter, deque
from typing import Any, ClassVar

from attnlab.core.errors import AttnlabError, UsageError
from attnlab.lab.engine import Job, Result, Sink
from attnlab.lab.engine.local import result_of
from attnlab.lab.engine.pool import TICK_SECONDS, Terms, default_workers
from attnlab.lab.engine.ray_cluster import check_address, connected, first_line, require_ray
from attnlab.lab.engine.ray_task import TASK_SECONDS, run_group, terms_bytes
from attnlab.lab.engine.wire import Unpacker
from attnlab.lab.trial import State, Trial

LOSSES = 20  # tasks a trial may be lost with: nodes may die often, but not for ever
OUT_OF_MEMORY = 3  # of them for want of memory on the node
MOST = 1000  # trials of one task
SHARE = 0.25  # of a GPU, for the trials of a study that says they do not fill one
COUNT_SECONDS = 2.0  # between two counts of the cluster
FETCH_SECONDS = 60.0


class RayEngine:
    """A Ray cluster: at `address`, or of our own on this machine."""

    elsewhere: ClassVar[bool] = True

    def __init__(self, address: str | None = None) -> None:
        require_ray()
        check_address(address)
        self.address = address

    def execute(self, job: Job, sink: Sink) -> None:
        """Run every trial; on any exception, and at the end, nothing of it runs on."""
        if job.workers is not None and job.workers < 1:
            raise UsageError(f"workers must be at least 1, got {job.workers}")
        with connected(self.address, job.workers or default_workers("cpu")) as ray:
            # a cluster of our own has as many cores as workers: more tasks than that can only wait
            sweep = _Sweep(ray, job, sink, self.address is not None and job.workers is not None)
            try:
                sweep.work()
            finally:
                sweep.cancel()


class _Sweep:
    """Groups of trials that run, and the queues of the others. `True` in a key: needs a GPU."""

    def __init__(self, ray: Any, job: Job, sink: Sink, exactly: bool = False) -> None:
        self.ray, self.job, self.sink = ray, job, sink
        self.ahead = 1 if exactly else 2  # tasks a slot: the second waits for the first to end
        self.queues: dict[bool, deque[Trial]] = {False: deque(), True: deque()}
        for trial in job.trials:
            self.queues[trial.config.get("device", job.device) == "cuda"].append(trial)
        self.share = SHARE if job.study.shares_accelerator else 1
        remote = ray.remote(run_group)
        self.tasks = {
            gpu: remote.options(num_cpus=1, num_gpus=self.share if gpu else 0, max_retries=0)
            for gpu in (False, True)
        }
        self.running: dict[Any, tuple[bool, list[Trial]]] = {}
        self.losses: Counter[str] = Counter()
        self.out_of_memory: Counter[str] = Counter()
        self.pace = TASK_SECONDS  # seconds of a trial, lately
        self.slots, self.counted = {False: 1, True: 0}, -math.inf
        self.common = ray.put(_common(job))

    def work(self) -> None:
        """Until every trial has a result."""
        while any(self.queues.values()) or self.running:
            self._count()
            self._submit()
            self._wait()
            self.sink.tick()

    def cancel(self) -> None:
        """Free the cluster of what nobody waits for."""
        for task in self.running:
            self.ray.cancel(task, force=True)

    def _count(self) -> None:
        """How many trials the cluster can run at once; nodes come and go."""
        now = time.monotonic()
        if now - self.counted < COUNT_SECONDS:
            return
        self.counted = now
        found = self.ray.cluster_resources()
        most = self.job.workers or math.inf
        self.slots = {
            False: int(min(most, max(1, found.get("CPU", 0)))),
            True: int(min(most, found.get("GPU", 0) / self.share)),
        }
        if self.queues[True] and not found.get("GPU"):
            raise UsageError("these trials need a GPU, and no node of the Ray cluster has one")

    def _submit(self) -> None:
        """One task a slot, and as many again that wait at the nodes, where they may."""
        for gpu, queue in self.queues.items():
            room = self.slots[gpu] * self.ahead
            in_flight = sum(kind == gpu for kind, _ in self.running.values())
            while queue and in_flight < room:
                group = [queue.popleft() for _ in range(self._group_size(len(queue), room))]
                asked = json.dumps([[dict(trial.config), trial.seed] for trial in group])
                task = self.tasks[gpu].remote(self.common, asked.encode())
                self.running[task] = gpu, group
                in_flight += 1

    def _group_size(self, left: int, room: int) -> int:
        """Trials that take a second together; fewer when few are left, so that all nodes work."""
        return max(1, min(int(TASK_SECONDS / self.pace), -(-left // room), MOST, left))

    def _wait(self) -> None:
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=TICK_SECONDS)
        if ready:
            every = list(self.running)
            ready, _ = self.ray.wait(every, num_returns=len(every), timeout=0)
        for task in ready:
            gpu, group = self.running.pop(task)
            self._collect(task, gpu, group)

    def _collect(self, task: Any, gpu: bool, group: list[Trial]) -> None:
        errors = self.ray.exceptions
        try:
            data = self.ray.get(task, timeout=FETCH_SECONDS)
        except errors.RayTaskError as error:  # our own code failed there: it would again
            last = str(error).strip().splitlines()[-1]
            raise AttnlabError(
                f"a Ray task failed: {last}\nevery node needs attnlab as it is here"
            ) from None
        except (errors.RayError, TimeoutError) as error:
            why = f"{type(error).__name__}: {first_line(error)[:200]}"
            self._requeue(gpu, group, why, isinstance(error, errors.OutOfMemoryError))
            return
        heard: dict[int, Result] = {}
        for message, blob in Unpacker().feed(data):
            if "unfit" in message:
                raise UsageError(message["unfit"])
            if "sick" in message:
                rest = [t for index, t in enumerate(group) if index not in heard]
                self._requeue(gpu, rest, message["sick"], False)
                group = [t for index, t in enumerate(group) if index in heard]
            else:
                index = message.pop("index")
                heard[index] = result_of(group[index], message, blob)
        for result in heard.values():
            seconds = float(result.cost.get("seconds", TASK_SECONDS))
            self.pace = 0.8 * self.pace + 0.2 * max(seconds, TASK_SECONDS / MOST)
            self.sink.accept(result)
        done = {result.trial.id for result in heard.values()}
        self.queues[gpu].extendleft(t for t in reversed(group) if t.id not in done)

    def _requeue(self, gpu: bool, group: list[Trial], why: str, out_of_memory: bool) -> None:
        """Run again what a dead task had not reported, alone if it died for lack of memory."""
        if out_of_memory:
            self.pace = TASK_SECONDS
        for trial in reversed(group):
            self.losses[trial.id] += 1
            self.out_of_memory[trial.id] += out_of_memory and len(group) == 1
            if self.out_of_memory[trial.id] >= OUT_OF_MEMORY or self.losses[trial.id] >= LOSSES:
                state: State = "oom" if out_of_memory else "crashed"
                error = f"its task was lost {self.losses[trial.id]} times, at last: {why}"
                self.sink.accept(Result(trial, state, error=error))
            else:
                self.queues[gpu].appendleft(trial)


def _common(job: Job) -> bytes:
    """What every task is sent; the mark shows a node whether it sees the driver's folder."""
    mark = f"here-{secrets.token_hex(8)}"
    job.scratch.mkdir(parents=True, exist_ok=True)
    (job.scratch / mark).touch()
    return terms_bytes(Terms.of(job), job.study.name, job.study.version, mark)
