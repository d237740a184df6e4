"""Why training data are shuffled: the same sentences, all of one class first, or in a drawn order.

The vectors of a frozen encoder, one linear map, plain SGD. In order, every step of the second half
of an epoch says "positive", and the map that is left when the epoch ends says so too.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.models.encoder import Encoder, open_encoder, pool
from attnlab.studies.concepts.pairs import draw
from attnlab.tasks.encoder_inputs import encode_examples
from attnlab.tasks.labelled import Example, majority
from attnlab.tasks.sentiment import rotten_tomatoes
from attnlab.train.loop import train
from attnlab.train.result import Hooks, Progress
from attnlab.train.settings import TrainSettings

BATCH = 8
RATE = 5.0  # the vectors have length 1
LONGEST = 64


class Vectors(NamedTuple):
    """Sentences as vectors of length 1, and their classes."""

    x: Tensor
    labels: Tensor


class Ordered:
    """Rows in the order of their class, or in another drawn order every epoch."""

    def __init__(self, rows: Vectors, seed: Seed, *, shuffled: bool) -> None:
        self.rows, self._seed, self._shuffled = rows, seed, shuffled
        self._by_class = np.argsort(rows.labels.numpy(), kind="stable")
        self.per_epoch = len(rows.labels) // BATCH

    def batch(self, step: int) -> Vectors:
        """Full batches only: an epoch leaves out what fills none."""
        epoch, place = divmod(step, self.per_epoch)
        order = self._by_class
        if self._shuffled:
            rng = self._seed.child("epoch", epoch).numpy_generator()
            order = rng.permutation(len(self.rows.labels))
        chosen = torch.from_numpy(order[place * BATCH : (place + 1) * BATCH].copy())
        return Vectors(self.rows.x[chosen], self.rows.labels[chosen])


def in_order(trial: Trial, context: TrialContext) -> Outcome:
    """Accuracy on other sentences after each epoch, both ways, from the same first weights."""
    c, seed = trial.config, trial.stream
    encoder, data = open_encoder(c["encoder"]), rotten_tomatoes()
    learn = vectors(encoder, draw(data.train, c["sentences"], seed.child("train")))
    held = draw(data.test, min(c["sentences"] // 2, len(data.test)), seed.child("test"))
    test = vectors(encoder, held)
    found: dict[str, Any] = {"majority": majority(held), "tested": len(held)}
    curves: dict[str, list[float]] = {}
    for name in ("shuffled", "sorted"):
        batches = Ordered(learn, seed.child("order"), shuffled=name == "shuffled")
        curves[name] = trained(batches, test, c["epochs"], seed.child("weights"), context)
        found[f"{name}_accuracy"] = curves[name][-1]
    return Outcome(found, curves=curves)


@torch.no_grad()
def vectors(encoder: Encoder, examples: list[Example]) -> Vectors:
    """The mean of each sentence's states, scaled to length 1."""
    rows = encode_examples(encoder.tokenizer, examples, LONGEST)
    out = torch.zeros(len(examples), encoder.width)
    for chosen, batch in rows.batches_by_length(32):
        options = {} if batch.kinds is None else {"token_type_ids": batch.kinds}
        states = encoder.library(
            input_ids=batch.ids, attention_mask=(~batch.key_padding_mask).long(), **options
        ).last_hidden_state
        out[torch.from_numpy(chosen)] = pool(states, batch.key_padding_mask, "mean")
    return Vectors(functional.normalize(out, dim=1), torch.from_numpy(rows.labels))


def trained(
    batches: Ordered, test: Vectors, epochs: int, seed: Seed, context: TrialContext
) -> list[float]:
    """Accuracy after every epoch of a linear map."""
    model: Any = nn.utils.skip_init(nn.Linear, batches.rows.x.shape[1], 2)
    with torch.no_grad():
        model.weight.normal_(0.0, 0.02, generator=seed.torch_generator())
        model.bias.zero_()

    def loss(module: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        total = functional.cross_entropy(module(batch.x), batch.labels, reduction="sum")
        return total, torch.tensor(len(batch.labels))

    def wrong(module: nn.Module) -> float:
        return float((module(test.x).argmax(dim=1) != test.labels).float().mean())

    def progress(p: Progress) -> None:
        context.step(p.step, p.steps, f"order, loss {p.loss:.3f}")

    settings = TrainSettings(
        steps=epochs * batches.per_epoch,
        batch=BATCH,
        learning_rate=RATE,
        optimizer="sgd",
        schedule="constant",
        warmup_fraction=0.0,
        weight_decay=0.0,
        clip=0.0,
        evaluate_every=batches.per_epoch,
    )
    done = train(
        model, batches, settings, loss=loss, hooks=Hooks(evaluate=wrong, progress=progress)
    )
    return [1 - float(line["value"]) for line in done.log if "value" in line]
