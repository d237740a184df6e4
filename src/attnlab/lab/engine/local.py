"""Trials on this machine: a pool of worker processes.

An accelerator holds one trial at a time (several large ones on a GPU are slower, not faster),
unless the study says that its trials are too small to fill one; the other workers go on with
trials that need none.
"""

import resource
from typing import Any, ClassVar

from attnlab.core.errors import UsageError
from attnlab.lab.artefacts import decode_arrays
from attnlab.lab.engine import Job, Result, Sink
from attnlab.lab.engine.pool import Pool, Terms, default_workers
from attnlab.lab.findings import finding_from_json
from attnlab.lab.trial import Outcome, Trial

FILES_EACH, FILES_BESIDE = 3, 64  # open files a worker, and of the driver itself


class LocalEngine:
    """Worker processes of this machine."""

    elsewhere: ClassVar[bool] = False

    def execute(self, job: Job, sink: Sink) -> None:
        """Run every trial; on any exception, and at the end, no worker is left."""
        wanted = _workers(job)

        def deliver(trial: Trial, message: dict[str, Any], blob: bytes) -> None:
            sink.accept(result_of(trial, message, blob))

        pool = Pool(Terms.of(job), wanted, deliver, sink.tick)
        pool.queue.extend(job.trials)
        try:
            pool.work()
        finally:
            pool.close()


def _workers(job: Job) -> int:
    """As many as were asked for; too many is said at once, not when one cannot be started."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = len(job.trials)
    if files != resource.RLIM_INFINITY:
        most = max(1, min(most, (files - FILES_BESIDE) // FILES_EACH))
    if job.workers is None:
        return min(default_workers(job.device), most)
    if job.workers < 1:
        raise UsageError(f"workers must be at least 1, got {job.workers}")
    if min(job.workers, len(job.trials)) > most:
        raise UsageError(
            f"{job.workers} workers, but {files} open files are enough for {most}: "
            "use fewer, or raise `ulimit -n`"
        )
    return min(job.workers, most)


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
            findings=[finding_from_json(values) for values in message.get("findings", [])],
        )
    return Result(trial, message["state"], outcome, message.get("error", ""), message["cost"])
