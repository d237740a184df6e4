"""Classifiers in the one loop: cross-entropy, accuracy on dev, the best weights by dev.

    fitted = fit(model, batches, settings, dev=lambda: encoded.in_order(64))

The weights of the highest dev accuracy so far are kept, the first of equals, and are in the model
at the end. `heard` is given the predictions of every evaluation, so that a collapse has a name
while the training goes on; numbers it returns go into the line of the log.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlab.models.encoder import Classifier, Texts
from attnlab.train.batch import Batches, map_tensors
from attnlab.train.checkpoint import best_checkpoint
from attnlab.train.loop import train
from attnlab.train.result import Hooks, TrainResult
from attnlab.train.settings import TrainSettings
from attnlab.train.tensors import model_tensors, restore_model

NumberedBatches = Callable[[], Iterable[tuple[np.ndarray, Texts]]]


def cross_entropy(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    """Σ −log p(label | text) over the rows of a batch, and their number."""
    logits = model(batch.ids, batch.hidden, batch.kinds)
    total = functional.cross_entropy(logits.float(), batch.labels, reduction="sum")
    return total, torch.tensor(len(batch.labels), device=total.device)


@dataclass(frozen=True)
class Predictions:
    """Logits and gold classes by row; what follows from them."""

    logits: np.ndarray  # (rows, classes)
    labels: np.ndarray

    @property
    def classes(self) -> np.ndarray:
        """The class of the highest logit, the first of equals."""
        return self.logits.argmax(axis=1)

    @property
    def right(self) -> int:
        """Rows whose class is the gold one."""
        return int((self.classes == self.labels).sum())

    @property
    def accuracy(self) -> float:
        """right / rows."""
        return self.right / len(self.labels)

    @property
    def loss(self) -> float:
        """Mean of −log p(label | text)."""
        scores = torch.from_numpy(self.logits).double()
        return float(functional.cross_entropy(scores, torch.from_numpy(self.labels)))


@torch.no_grad()
def predict(model: nn.Module, rows: Iterable[tuple[np.ndarray, Texts]]) -> Predictions:
    """Logits of every row by its number, in evaluation mode; the mode is put back."""
    device, was = next(model.parameters()).device, model.training
    model.eval()
    places, logits, labels = [], [], []
    for chosen, batch in rows:
        here = map_tensors(batch, lambda tensor: tensor.to(device))
        places.append(np.asarray(chosen))
        logits.append(model(here.ids, here.hidden, here.kinds).float().cpu().numpy())
        labels.append(batch.labels.numpy())
    model.train(was)
    order = np.argsort(np.concatenate(places))
    return Predictions(np.concatenate(logits)[order], np.concatenate(labels)[order])


@dataclass(frozen=True)
class FitResult:
    """How the training went; the model now holds its best weights."""

    trained: TrainResult
    best_step: int | None

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """The lines of the log on which dev was scored."""
        return [line for line in self.trained.log if line.get("value") is not None]


def fit(  # noqa: PLR0913  (the loop's own arguments, and dev)
    model: Classifier,
    batches: Batches,
    settings: TrainSettings,
    *,
    dev: NumberedBatches,
    checkpoints: Path | None = None,
    hooks: Hooks | None = None,
    heard: Callable[[Predictions], Mapping[str, float] | None] = lambda predicted: None,
) -> FitResult:
    """Train in place; with a folder it can be stopped and goes on, without one it is quicker."""
    kept = _BestWeights(model)

    def evaluate(trained: nn.Module) -> dict[str, float]:
        found = predict(trained, dev())
        more = heard(found) or {}
        error = 1 - found.accuracy
        if checkpoints is None:
            kept.note(error)
        return {"value": error, "dev_accuracy": found.accuracy, "dev_loss": found.loss, **more}

    hooks = replace(hooks or Hooks(), evaluate=evaluate)
    done = train(model, batches, settings, loss=cross_entropy, checkpoints=checkpoints, hooks=hooks)
    if done.ending == "done":
        if checkpoints is None:
            kept.restore()
        else:
            best_checkpoint(checkpoints).load_model(model)
    return FitResult(done, done.best_step)


class _BestWeights:
    """A copy of what learns, of the lowest error so far."""

    def __init__(self, model: Classifier) -> None:
        self.model, self.error = model, float("inf")
        self.tensors: dict[str, Tensor] = {}

    def note(self, error: float) -> None:
        if error < self.error:
            own = model_tensors(cast(nn.Module, self.model))
            self.error = error
            self.tensors = {name: tensor.detach().clone() for name, tensor in own.items()}

    def restore(self) -> None:
        if self.tensors:
            restore_model(self.model, self.tensors)
