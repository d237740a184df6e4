"""Look-up: which value stands beside the key that is asked for?

    keys     f  c  a  h        asked  a        answer  2        place  2 (from 0)
    values   7  3  2  7

Keys of a row differ; values are drawn evenly. Rows are drawn anew for every step, so there is
nothing to learn by heart: only to find the item.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.core.seeds import Seed

if TYPE_CHECKING:
    from attnlab.studies.hard_attention.model import Lookup


@dataclass(frozen=True)
class Sizes:
    """Pairs in a row, different keys, different values, width of the model."""

    pairs: int
    symbols: int
    answers: int
    width: int


@dataclass(frozen=True)
class Rows:
    """A batch; `temperature` is the one its step trains at."""

    keys: Tensor
    values: Tensor
    asked: Tensor
    answer: Tensor
    place: Tensor
    temperature: float = 1.0

    def __len__(self) -> int:
        return len(self.answer)


def draw(sizes: Sizes, count: int, seed: Seed) -> Rows:
    """`count` new rows."""
    rng = seed.numpy_generator()
    keys = rng.random((count, sizes.symbols)).argsort(axis=1)[:, : sizes.pairs]
    values = rng.integers(0, sizes.answers, size=(count, sizes.pairs))
    place, row = rng.integers(0, sizes.pairs, size=count), np.arange(count)
    found = (keys, values, keys[row, place], values[row, place], place)
    keys, values, asked, answer, place = (torch.from_numpy(a) for a in found)
    return Rows(keys, values, asked, answer, place)


@dataclass(frozen=True)
class Fresh:
    """Batches for the loop: new rows every step, T going from the first to the second number."""

    sizes: Sizes
    rows: int
    steps: int
    temperature: tuple[float, float]
    seed: Seed

    def batch(self, step: int) -> Rows:
        """T falls by the same factor every step."""
        hot, cold = self.temperature
        now = hot * (cold / hot) ** (step / max(1, self.steps - 1))
        rows = draw(self.sizes, self.rows, self.seed.child("step", step))
        return replace(rows, temperature=now)


def loss(model: nn.Module, rows: Any) -> tuple[Tensor, Tensor]:
    """Σ −log p(answer), and how many rows there are; the model is set to the batch's T."""
    lookup = cast("Lookup", model)  # the loop knows modules only
    lookup.temperature = rows.temperature
    return nll(lookup(rows), rows), torch.tensor(len(rows))


def nll(logits: Tensor, rows: Rows) -> Tensor:
    """Σ −log p(answer)."""
    return nn.functional.cross_entropy(logits, rows.answer, reduction="sum")


def without_model(rows: Rows, sizes: Sizes) -> dict[str, float]:
    """Accuracy on these rows of rules that need no model.

    chance: any value; majority: the most frequent answer of these rows; one item: the value of
    the first item, whatever is asked; most frequent: the value most frequent in the row.
    """
    from attnlab.audit.checks.baselines import answer_baselines

    values, answer = rows.values.cpu().numpy(), rows.answer.cpu().numpy()
    counts = (values[:, :, None] == np.arange(sizes.answers)).sum(axis=1)
    known = answer_baselines(answer.tolist(), classes=sizes.answers)
    return {
        "chance": known["chance"],
        "majority": known["majority"],
        "one_item": float((values[:, 0] == answer).mean()),
        "most_frequent": float((counts.argmax(axis=1) == answer).mean()),
    }
