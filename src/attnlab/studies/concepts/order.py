"""Why training data are shuffled: the same sentences in random order, or sorted by class.

A linear classifier on the vectors of a frozen encoder, trained by plain SGD. Sorted, every step of
the second half of an epoch says "positive", and so does the classifier when the epoch ends.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.seeds import Seed
from attnlab.lab.training import train_in_trial
from attnlab.lab.trial import Outcome, Scalar, TrialContext
from attnlab.models.encoder import Encoder, open_encoder
from attnlab.studies.concepts.pairs import mean_vectors, sample_examples
from attnlab.studies.concepts.study import ConceptsSettings
from attnlab.tasks.encoder_inputs import encode_examples
from attnlab.tasks.labelled import Example, majority
from attnlab.tasks.sentiment import rotten_tomatoes
from attnlab.training.settings import TrainSettings

BATCH = 8
LEARNING_RATE = 5.0  # large, since the vectors have length 1
MAX_LENGTH = 64


class Vectors(NamedTuple):
    """Sentences as vectors of length 1, and their classes."""

    x: Tensor
    labels: Tensor


class OrderedBatches:
    """Full batches of rows sorted by class, or in another random order every epoch."""

    def __init__(self, rows: Vectors, seed: Seed, *, shuffled: bool) -> None:
        self.rows, self._seed, self._shuffled = rows, seed, shuffled
        self._by_class = np.argsort(rows.labels.numpy(), kind="stable")
        self.per_epoch = len(rows.labels) // BATCH

    def batch(self, step: int) -> Vectors:
        """The rows of one step; an epoch leaves out what does not fill a batch."""
        epoch, place = divmod(step, self.per_epoch)
        order = self._by_class
        if self._shuffled:
            rng = self._seed.child("epoch", epoch).numpy_generator()
            order = rng.permutation(len(self.rows.labels))
        chosen = torch.from_numpy(order[place * BATCH : (place + 1) * BATCH].copy())
        return Vectors(self.rows.x[chosen], self.rows.labels[chosen])


def compare_orders(s: ConceptsSettings, seed: Seed, context: TrialContext) -> Outcome:
    """Test accuracy after each epoch in both orders, from the same initial weights."""
    encoder, data = open_encoder(s.encoder), rotten_tomatoes()
    learn = sentence_vectors(encoder, sample_examples(data.train, s.sentences, seed.child("train")))
    count = min(s.sentences // 2, len(data.test))
    examples = sample_examples(data.test, count, seed.child("test"))
    test = sentence_vectors(encoder, examples)
    metrics: dict[str, Scalar] = {"majority": majority(examples), "tested": len(examples)}
    curves: dict[str, list[float]] = {}
    for name in ("shuffled", "sorted"):
        batches = OrderedBatches(learn, seed.child("order"), shuffled=name == "shuffled")
        curves[name] = accuracy_curve(batches, test, s.epochs, seed.child("weights"), context)
        metrics[f"{name}_accuracy"] = curves[name][-1]
    return Outcome(metrics, curves=curves)


def sentence_vectors(encoder: Encoder, examples: list[Example]) -> Vectors:
    """The mean of each sentence's states, scaled to length 1."""
    rows = encode_examples(encoder.tokenizer, examples, MAX_LENGTH)
    out = torch.zeros(len(examples), encoder.width)
    for chosen, batch in rows.batches_by_length(32):
        vectors = mean_vectors(encoder, batch.ids, batch.key_padding_mask, batch.kinds)
        out[torch.from_numpy(chosen)] = vectors
    return Vectors(functional.normalize(out, dim=1), torch.from_numpy(rows.labels))


def accuracy_curve(
    batches: OrderedBatches, test: Vectors, epochs: int, seed: Seed, context: TrialContext
) -> list[float]:
    """Train a linear classifier; its test accuracy after every epoch."""
    model: Any = nn.utils.skip_init(nn.Linear, batches.rows.x.shape[1], 2)
    with torch.no_grad():
        model.weight.normal_(0.0, 0.02, generator=seed.torch_generator())
        model.bias.zero_()

    def loss(module: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        total = functional.cross_entropy(module(batch.x), batch.labels, reduction="sum")
        return total, torch.tensor(len(batch.labels))

    def error(module: nn.Module) -> float:
        return float((module(test.x).argmax(dim=1) != test.labels).float().mean())

    settings = TrainSettings(
        steps=epochs * batches.per_epoch,
        batch=BATCH,
        learning_rate=LEARNING_RATE,
        optimizer="sgd",
        schedule="constant",
        warmup_fraction=0.0,
        weight_decay=0.0,
        clip=0.0,
        evaluate_every=batches.per_epoch,
    )
    result = train_in_trial(context, "order", model, batches, settings, loss=loss, evaluate=error)
    return [1 - float(line["value"]) for line in result.evaluations]
