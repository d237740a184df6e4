"""Trials on this machine: a pool of worker processes.

An accelerator holds one trial at a time (several large ones on a GPU are slower, not faster),
unless the study says that its trials are too small to fill one; the other workers go on with
trials that need none.
"""

from typing import Any, ClassVar

from attnlab.core.errors import UsageError
from attnlab.lab.artefacts import decode_arrays
from attnlab.lab.engine import Job, Result, Sink
from attnlab.lab.engine.pool import Pool, Terms, default_workers
from attnlab.lab.trial import Outcome, Trial


class LocalEngine:
    """Worker processes of this machine."""

    elsewhere: ClassVar[bool] = False

    def execute(self, job: Job, sink: Sink) -> None:
        """Run every trial; on any exception, and at the end, no worker is left."""
        wanted = default_workers(job.device) if job.workers is None else job.workers
        if wanted < 1:
            raise UsageError(f"workers must be at least 1, got {wanted}")

        def deliver(trial: Trial, message: dict[str, Any], blob: bytes) -> None:
            sink.accept(result_of(trial, message, blob))

        pool = Pool(Terms.of(job), min(wanted, len(job.trials)), deliver, sink.tick)
        pool.queue.extend(job.trials)
        try:
            pool.work()
        finally:
            pool.close()


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
