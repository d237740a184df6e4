"""The other processes of a distributed training: they compute but store nothing."""

from pathlib import Path

from attnlab.core.errors import AttnlabError
from attnlab.lab.manifest import CHECKPOINTS
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.run_spec import STUDY
from attnlab.lab.stop import stop_on_signals
from attnlab.lab.trial import TrialContext, TrialStopped


def follow(plan: Plan, out: Path) -> None:
    """Run the same trials as the first process, in the same order, from its checkpoints."""
    study, folder = plan.study, out / plan.name
    finished = Record.open(folder).finished_ids() if (folder / STUDY).exists() else set[str]()
    with stop_on_signals() as stop:
        for trial in plan.trials:
            if trial.id in finished:
                continue
            context = TrialContext(
                device=study.settings.device,
                checkpoints=folder / CHECKPOINTS / trial.id,
                stopping=lambda: bool(stop.signal_number),
            )
            try:
                study.run(trial, context)
            except TrialStopped:
                break
            except AttnlabError:
                raise
            except Exception:  # the first process gets the same error and records it
                continue
        stop.raise_if_asked("the first process stores a checkpoint")
