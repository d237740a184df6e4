"""Training classifiers: cross-entropy loss, evaluation on dev, selection of the best weights.

    result = fit(model, batches, settings, dev=lambda: encoded.batches_by_length(64))

At the end the model holds the weights with the highest dev accuracy, the earliest among equals.
`on_predictions` is called with the predictions of every evaluation, for example to notice a
collapse during the training; the numbers it returns are added to that line of the log.
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
from attnlab.training.batch import Batches, map_tensors
from attnlab.training.checkpoint import best_checkpoint
from attnlab.training.loop import train
from attnlab.training.result import Hooks, TrainResult
from attnlab.training.settings import TrainSettings
from attnlab.training.tensors import BestWeights

NumberedBatch = tuple[np.ndarray, Texts]  # row numbers, and the rows as a batch


def cross_entropy(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    """Σ −log p(label | text) over the rows of a batch, and the number of rows."""
    logits = model(batch.ids, batch.key_padding_mask, batch.kinds)
    total = functional.cross_entropy(logits.float(), batch.labels, reduction="sum")
    return total, torch.tensor(len(batch.labels), device=total.device)


@dataclass(frozen=True)
class Predictions:
    """Logits and gold labels of a data set, with the scores that follow from them."""

    logits: np.ndarray  # (rows, classes)
    labels: np.ndarray  # (rows,)

    @property
    def classes(self) -> np.ndarray:
        """Predicted class of every row: the highest logit, the first among equals."""
        return self.logits.argmax(axis=1)

    @property
    def correct(self) -> int:
        """Number of rows whose predicted class is the gold label."""
        return int((self.classes == self.labels).sum())

    @property
    def accuracy(self) -> float:
        """correct / rows."""
        return self.correct / len(self.labels)

    @property
    def loss(self) -> float:
        """Mean of −log p(label | text) over the rows, computed in float64."""
        scores = torch.from_numpy(self.logits).double()
        return float(functional.cross_entropy(scores, torch.from_numpy(self.labels)))


@torch.no_grad()
def predict(model: nn.Module, batches: Iterable[NumberedBatch]) -> Predictions:
    """Compute the logits in evaluation mode and sort them by row number; the mode is restored."""
    device, was_training = next(model.parameters()).device, model.training
    model.eval()
    numbers, logits, labels = [], [], []
    for rows, batch in batches:
        moved = map_tensors(batch, lambda tensor: tensor.to(device))
        numbers.append(np.asarray(rows))
        logits.append(model(moved.ids, moved.key_padding_mask, moved.kinds).float().cpu().numpy())
        labels.append(batch.labels.numpy())
    model.train(was_training)
    order = np.argsort(np.concatenate(numbers))
    return Predictions(np.concatenate(logits)[order], np.concatenate(labels)[order])


def fit(  # noqa: PLR0913  (the arguments of `train`, and dev)
    model: Classifier,
    batches: Batches,
    settings: TrainSettings,
    *,
    dev: Callable[[], Iterable[NumberedBatch]],
    checkpoints: Path | None = None,
    hooks: Hooks | None = None,
    on_predictions: Callable[[Predictions], Mapping[str, float] | None] = lambda predictions: None,
) -> TrainResult:
    """Train in place and load the best weights; `dev()` yields every dev row in batches.

    With a folder for checkpoints the training can be stopped and resumed; without one, the best
    weights are kept in memory, which is faster. The best weights are loaded only if the training
    came to its end.
    """
    best = BestWeights(cast(nn.Module, model))

    def evaluate(trained: nn.Module) -> dict[str, float]:
        predictions = predict(trained, dev())
        extra = on_predictions(predictions) or {}
        error = 1 - predictions.accuracy
        if checkpoints is None:
            best.update(error)
        return {
            "value": error,
            "dev_accuracy": predictions.accuracy,
            "dev_loss": predictions.loss,
            **extra,
        }

    hooks = replace(hooks or Hooks(), evaluate=evaluate)
    result = train(
        model, batches, settings, loss=cross_entropy, checkpoints=checkpoints, hooks=hooks
    )
    if result.ending == "done":
        if checkpoints is None:
            best.restore()
        else:
            best_checkpoint(checkpoints).load_model(model)
    return result
