"""Counting: how often does the token that stands here stand in this row?

    row      c  a  c  b  c  a
    answer   3  2  3  1  3  2

Tokens are drawn evenly and anew for every step: rows repeat so rarely that nothing can be learnt by
heart. It is the histogram task of Cui et al. 2024 (arXiv 2402.03902).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnlab.core.seeds import Seed


@dataclass(frozen=True)
class Sizes:
    """Tokens in a row, different tokens, width of the model, hidden units of its read-out."""

    length: int
    tokens: int
    width: int
    hidden: int


@dataclass(frozen=True)
class Rows:
    """A batch: rows × places."""

    tokens: Tensor
    answer: Tensor


def counts(tokens: Tensor) -> Tensor:
    """answer_i = Σ_j [token_j = token_i]: at least 1, at most the length."""
    return (tokens[:, :, None] == tokens[:, None, :]).sum(dim=-1)


def draw(sizes: Sizes, count: int, seed: Seed) -> Rows:
    """`count` new rows."""
    drawn = seed.numpy_generator().integers(0, sizes.tokens, size=(count, sizes.length))
    tokens = torch.from_numpy(drawn)
    return Rows(tokens, counts(tokens))


@dataclass(frozen=True)
class Fresh:
    """Batches for the loop: new rows every step."""

    sizes: Sizes
    rows: int
    seed: Seed

    def batch(self, step: int) -> Rows:
        """A pure function of the step."""
        return draw(self.sizes, self.rows, self.seed.child("step", step))


def loss(model: nn.Module, rows: Any) -> tuple[Tensor, Tensor]:
    """Σ −log p(answer), and how many places there are."""
    logits = model(rows.tokens)
    total = nn.functional.cross_entropy(
        logits.flatten(0, 1), rows.answer.flatten() - 1, reduction="sum"
    )
    return total, torch.tensor(rows.answer.numel())


def without_model(rows: Rows, sizes: Sizes) -> dict[str, float]:
    """Accuracy of always giving the most frequent answer, and of any answer at random."""
    seen = np.bincount(rows.answer.flatten().numpy(), minlength=sizes.length + 1)
    return {"majority": float(seen.max() / seen.sum()), "chance": 1 / sizes.length}
