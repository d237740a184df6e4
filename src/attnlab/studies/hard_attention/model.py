"""The look-up task, and one attention layer that must find the item asked for.

    keys     f  c  a  h        asked  a        answer  2        place  2 (from 0)
    values   7  3  2  7

Keys of a row differ; values are drawn evenly. Rows are drawn anew for every step, so there is
nothing to learn by heart: only to find the item. The arms differ in how attention chooses.

    x_query = A[asked]        x_key_i = K[key_i] + V[value_i]        logits = R · attention(...)

All entries start with the spread that keeps variances (embeddings of size 1, maps 1/√width), so
that scores start with a spread near 1 and a temperature means the same in every arm.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.audit.checks.baselines import answer_baselines
from attnlab.core.seeds import Seed
from attnlab.parts.attention import Attention, Steps
from attnlab.parts.initialise import normal, normal_
from attnlab.parts.mask import Full, OnlySelf
from attnlab.parts.normalise import Normalise
from attnlab.parts.part import Dims
from attnlab.parts.position import NoPosition
from attnlab.parts.project import Linear
from attnlab.studies.hard_attention.study import HardSettings


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


def draw(s: HardSettings, count: int, seed: Seed) -> Rows:
    """`count` new rows."""
    rng = seed.numpy_generator()
    keys = rng.random((count, s.symbols)).argsort(axis=1)[:, : s.pairs]
    values = rng.integers(0, s.answers, size=(count, s.pairs))
    place, row = rng.integers(0, s.pairs, size=count), np.arange(count)
    found = (keys, values, keys[row, place], values[row, place], place)
    keys, values, asked, answer, place = (torch.from_numpy(a) for a in found)
    return Rows(keys, values, asked, answer, place)


@dataclass(frozen=True)
class Fresh:
    """Batches for the loop: new rows every step, T going from the first to the second number."""

    settings: HardSettings
    rows: int
    steps: int
    temperature: Sequence[float]
    seed: Seed

    def batch(self, step: int) -> Rows:
        """T falls by the same factor every step."""
        hot, cold = self.temperature
        now = hot * (cold / hot) ** (step / max(1, self.steps - 1))
        rows = draw(self.settings, self.rows, self.seed.child("step", step))
        return replace(rows, temperature=now)


def loss(model: nn.Module, rows: Any) -> tuple[Tensor, Tensor]:
    """Σ −log p(answer), and how many rows there are; the model is set to the batch's T."""
    lookup = cast("Lookup", model)  # the loop knows modules only
    lookup.temperature = rows.temperature
    return nll(lookup(rows), rows), torch.tensor(len(rows))


def nll(logits: Tensor, rows: Rows) -> Tensor:
    """Σ −log p(answer)."""
    return nn.functional.cross_entropy(logits, rows.answer, reduction="sum")


def without_model(rows: Rows, answers: int) -> dict[str, float]:
    """Accuracy on these rows of rules that need no model.

    chance: any value; majority: the most frequent answer of these rows; one item: the value of
    the first item, whatever is asked; most frequent: the value most frequent in the row.
    """
    values, answer = rows.values.cpu().numpy(), rows.answer.cpu().numpy()
    counts = (values[:, :, None] == np.arange(answers)).sum(axis=1)
    return {
        **answer_baselines(answer.tolist(), classes=answers),
        "one_item": float((values[:, 0] == answer).mean()),
        "most_frequent": float((counts.argmax(axis=1) == answer).mean()),
    }


@dataclass(frozen=True)
class Choice:
    """What an arm changes: the parts, T at the first and last step, embeddings held fixed."""

    normalise: str = "softmax"
    mask: str = "full"
    temperature: Sequence[float] = (1.0, 1.0)
    fixed: bool = False


class Lookup(nn.Module):
    """Embeddings, one head of attention, a linear read-out."""

    def __init__(self, s: HardSettings, choice: Choice, generator: torch.Generator) -> None:
        super().__init__()
        d = s.width
        self.dims = Dims.of(d, heads=1, block=s.pairs, bias=False)
        mask = OnlySelf.Config() if choice.mask == "self" else Full.Config()
        parts = Attention.Config(mask=mask, normalise=normaliser(choice.normalise))
        none = NoPosition.Config().build(self.dims, generator)
        self.attention = Attention(parts, self.dims, none, generator)
        self.asked = normal((s.symbols, d), 1.0, generator)
        self.key = normal((s.symbols, d), 0.5**0.5, generator)
        self.value = normal((s.answers, d), 0.5**0.5, generator)
        self.read = normal((s.answers, d), d**-0.5, generator)
        for weight in (self.maps, self.attention.merge.out.weight):
            normal_(weight, d**-0.5, generator)
        if choice.fixed:
            for table in (self.asked, self.key, self.value):
                table.requires_grad_(False)
        self.temperature = choice.temperature[0]

    @property
    def maps(self) -> nn.Parameter:
        """The rows of W_q, then W_k, then W_v."""
        assert isinstance(self.attention.project, Linear)
        return cast("nn.Parameter", self.attention.project.qkv.weight)

    def items(self, rows: Rows) -> Tensor:
        """What keys and values are computed from: batch × pairs × width."""
        return self.key[rows.keys] + self.value[rows.values]

    def steps(self, rows: Rows, items: Tensor | None = None) -> Steps:
        """Everything attention computes for the one query of each row."""
        self.attention.scale = self.dims.d_head**-0.5 / self.temperature
        seen = self.items(rows) if items is None else items
        return self.attention.steps(self.asked[rows.asked][:, None], seen)

    def logits(self, steps: Steps) -> Tensor:
        """Batch × answers."""
        return steps.out[:, 0] @ self.read.T

    def forward(self, rows: Rows) -> Tensor:
        """Logits of the answers."""
        return self.logits(self.steps(rows))


def normaliser(name: str) -> Normalise.Config:
    """softmax, argmax or straight-through."""
    return cast("Normalise.Config", Normalise.config_from_json({"name": name}))
