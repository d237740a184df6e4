"""Training inside a trial: the lab shows its progress and may stop it; the files of a model."""

import json
import warnings
from collections.abc import Callable
from typing import Any

from torch import nn

from attnlab.core.seeds import Seed
from attnlab.decode.generate import generate
from attnlab.decode.strategy import Strategy
from attnlab.lab.trial import TrialContext, TrialStopped
from attnlab.models.gpt import GPT
from attnlab.models.perceiver import Perceiver
from attnlab.tasks.tokenizer import Tokenizer
from attnlab.training.batch import Batches
from attnlab.training.checkpoint import CheckpointWarning
from attnlab.training.loop import train
from attnlab.training.result import Hooks, Progress, TrainResult
from attnlab.training.settings import TrainSettings


def train_in_trial(  # noqa: PLR0913  (the arguments of a trainer, and what the bar shows)
    context: TrialContext,
    words: str | Callable[[Progress], str],
    model: nn.Module,
    batches: Batches,
    settings: TrainSettings,
    *,
    evaluate: Any = None,
    trainer: Callable[..., TrainResult] = train,
    **options: Any,
) -> TrainResult:
    """`train`, or another trainer, with the lab's progress bar; TrialStopped where it stops it.

    The bar shows `words` and the loss, or what the function `words` makes of the progress.
    `evaluate` as in `Hooks`; `options` are those of the trainer. A checkpoint that is skipped
    gives a warning, never an error.
    """

    def progress(p: Progress) -> None:
        text = words(p) if callable(words) else f"{words}, loss {p.loss:.3f}"
        context.step(p.step, p.steps, text)

    hooks = Hooks(evaluate=evaluate, progress=progress, stop=context.stopping)
    with warnings.catch_warnings():
        warnings.simplefilter("default", CheckpointWarning)
        result = trainer(model, batches, settings, hooks=hooks, **options)
    if result.ending == "stopped":
        raise TrialStopped
    return result


def model_files(model: GPT | Perceiver, tokenizer: Tokenizer) -> dict[str, dict[str, Any]]:
    """The arrays and documents of an outcome from which its trained model is loaded again."""
    config = json.dumps(model.config.to_json())
    return {
        "arrays": {f"model.{k}": v.detach().cpu().numpy() for k, v in model.state_dict().items()},
        "documents": {"tokenizer.json": tokenizer.to_json(), "model.json": config},
    }


def sample_texts(
    model: GPT, tokenizer: Tokenizer, seed: Seed, tokens: int, *, n: int = 1, prompt: str = ""
) -> list[str]:
    """`n` texts of at most so many new tokens, each with its prompt, at temperature 0.8."""
    start = [tokenizer.start, *tokenizer.encode(prompt)]
    texts = generate(
        model,
        [start],
        Strategy("temperature", {"t": 0.8}),
        n=n,
        stop_ids=[tokenizer.stop],
        max_new_tokens=tokens,
        seed=seed,
    )
    return [tokenizer.decode([*start, *text.ids]) for text in texts]
