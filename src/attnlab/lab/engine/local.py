"""Trials on this machine: in a pool of worker processes, or in the driver's own process.

An accelerator holds one trial at a time (several large ones on a GPU are slower, not faster),
unless the study says that its trials are too small to fill one; the other workers go on with
trials that need none.
"""

import resource
import shutil
from typing import Any, ClassVar

from safetensors.numpy import load

from attnlab.core.errors import RankLostError, StorageError, UsageError
from attnlab.lab.engine import Job, Result, Sink
from attnlab.lab.engine.pool import Pool, Terms, default_workers
from attnlab.lab.engine.worker import attempt
from attnlab.lab.findings import finding_of
from attnlab.lab.trial import Outcome, Trial, TrialContext, TrialStopped

NOT_OF_THE_TRIAL = (TrialStopped, StorageError, RankLostError)
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
    """As many as requested; too many are refused now, not when one cannot be started."""
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


class InlineEngine:
    """Runs trials one after the other in this process, with all its threads.

    For work that is one trial, such as training one model: it shows its steps and answers Ctrl-C
    with a checkpoint. A trial that crashes takes the driver with it: a sweep belongs to workers.
    """

    elsewhere: ClassVar[bool] = False

    def execute(self, job: Job, sink: Sink) -> None:
        """Run every trial in order."""
        for trial in job.trials:
            context = _context(job, sink, trial)
            try:
                message, blob = attempt(job.study, trial, context, NOT_OF_THE_TRIAL)
            except TrialStopped:
                sink.tick()  # raises: a signal is why it stopped
                raise
            finally:
                shutil.rmtree(job.scratch, ignore_errors=True)
            sink.accept(result_of(trial, message, blob))
            sink.tick()


def _context(job: Job, sink: Sink, trial: Trial) -> TrialContext:
    scratch = job.scratch / trial.id
    scratch.mkdir(parents=True, exist_ok=True)
    return TrialContext(
        device=job.device,
        scratch=scratch,
        checkpoints=job.checkpoints / trial.id,
        stopping=lambda: sink.stopping,
        step=lambda done, of, words: sink.step(trial, done, of, words),
    )


def result_of(trial: Trial, message: dict[str, Any], blob: bytes) -> Result:
    """The message of `attempt` as a result."""
    outcome = None
    if "metrics" in message:
        same = ("metrics", "reasons", "curves", "samples", "documents")
        outcome = Outcome(
            **{name: message[name] for name in same},
            arrays=load(blob) if blob else {},
            findings=[finding_of(f, f"trial {trial.id}") for f in message.get("findings", ())],
        )
    return Result(trial, message["state"], outcome, message.get("error", ""), message["cost"])
