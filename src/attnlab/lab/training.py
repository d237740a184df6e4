"""Training inside a trial: the lab shows its progress and may stop it."""

from typing import Any

from torch import nn

from attnlab.lab.trial import TrialContext, TrialStopped
from attnlab.training.batch import Batches
from attnlab.training.loop import train
from attnlab.training.result import Hooks, Progress, TrainResult
from attnlab.training.settings import TrainSettings


def train_in_trial(
    context: TrialContext,
    words: str,
    model: nn.Module,
    batches: Batches,
    settings: TrainSettings,
    *,
    evaluate: Any = None,
    **options: Any,
) -> TrainResult:
    """`train` with `words` and the loss in the progress bar; TrialStopped where the lab stops it.

    `evaluate` as in `Hooks`; `options` are those of `train`.
    """

    def progress(p: Progress) -> None:
        context.step(p.step, p.steps, f"{words}, loss {p.loss:.3f}")

    hooks = Hooks(evaluate=evaluate, progress=progress, stop=context.stopping)
    result = train(model, batches, settings, hooks=hooks, **options)
    if result.ending == "stopped":
        raise TrialStopped
    return result
