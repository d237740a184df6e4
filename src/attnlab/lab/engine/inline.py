"""Trials one after the other in the driver's own process, with all its threads.

For work that is one trial, such as training one model: it shows its steps and answers Ctrl-C
with a checkpoint. A trial that crashes takes the driver with it: a sweep belongs to workers.
"""

import shutil
from typing import ClassVar

from attnlab.core.errors import RankLostError, StorageError
from attnlab.lab.engine import Job, Sink
from attnlab.lab.engine.local import result_of
from attnlab.lab.engine.worker import attempt
from attnlab.lab.trial import Trial, TrialContext, TrialStopped

NOT_OF_THE_TRIAL = (TrialStopped, StorageError, RankLostError)


class InlineEngine:
    """Runs trials in this process."""

    elsewhere: ClassVar[bool] = False

    def execute(self, job: Job, sink: Sink) -> None:
        """Run every trial in order."""
        for trial in job.trials:
            try:
                message, blob = attempt(
                    job.study, trial, _context(job, sink, trial), NOT_OF_THE_TRIAL
                )
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
