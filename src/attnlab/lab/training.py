"""Training inside a trial: the lab shows its progress and may stop it."""

import warnings
from collections.abc import Callable
from typing import Any

from torch import nn

from attnlab.lab.trial import TrialContext, TrialStopped
from attnlab.training.batch import Batches
from attnlab.training.checkpoint import CheckpointWarning
from attnlab.training.loop import train
from attnlab.training.result import Hooks, Progress, TrainResult
from attnlab.training.settings import TrainSettings


def train_in_trial(
    context: TrialContext,
    words: str | Callable[[Progress], str],
    model: nn.Module,
    batches: Batches,
    settings: TrainSettings,
    *,
    evaluate: Any = None,
    **options: Any,
) -> TrainResult:
    """`train` with the lab's progress bar; TrialStopped where the lab stops it.

    The bar shows `words` and the loss, or what the function `words` makes of the progress.
    `evaluate` as in `Hooks`; `options` are those of `train`. A checkpoint that is skipped gives a
    warning, never an error.
    """

    def progress(p: Progress) -> None:
        text = words(p) if callable(words) else f"{words}, loss {p.loss:.3f}"
        context.step(p.step, p.steps, text)

    hooks = Hooks(evaluate=evaluate, progress=progress, stop=context.stopping)
    with warnings.catch_warnings():
        warnings.simplefilter("default", CheckpointWarning)
        result = train(model, batches, settings, hooks=hooks, **options)
    if result.ending == "stopped":
        raise TrialStopped
    return result
