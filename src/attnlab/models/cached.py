"""A GPT one token at a time: what its layers have read is kept, nothing is computed twice.

cached = model.cached(batch=2, length=128)
cached.step(ids[:, :5]);  cached.step(ids[:, 5:6])      # rows of model(ids), piece by piece
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from attnlab.core.errors import UsageError
from attnlab.models.block import States
from attnlab.models.protocol import Hidden, Ids, Logits
from attnlab.parts.attention import Attention
from attnlab.parts.cached import CachedAttention
from attnlab.parts.part import Places

if TYPE_CHECKING:
    from attnlab.models.gpt import GPT


@dataclass
class CachedGPT:
    """A model and what each of its layers has kept."""

    model: "GPT"
    layers: list[CachedAttention]
    seen: Int[Tensor, "batch 1"]  # visible tokens of each row so far

    @staticmethod
    def from_gpt(model: "GPT", batch: int, length: int) -> "CachedGPT":
        """Refused where a token to come could change what is already read."""
        if length > model.context:
            raise UsageError(f"{length} positions, but this model reads {model.context} at most")
        layers = [
            CachedAttention.from_attention(block.attention, batch, length)
            for block in model.layers()
        ]
        seen = torch.zeros((batch, 1), dtype=torch.int64, device=model.embedding.device)
        return CachedGPT(model, layers, seen)

    @torch.no_grad()
    def step(self, ids: Ids, hidden: Hidden = None) -> Logits:
        """The logits after each of the new ids; hidden ones (padding on the left) are skipped."""
        visible = torch.ones_like(ids) if hidden is None else (~hidden).long()
        at = self.seen + visible.cumsum(dim=1) - 1
        caches = iter(self.layers)

        def attend(attention: Attention, x: States) -> States:
            del attention  # the cache holds it
            return next(caches).step(x, at, hidden)

        x = self.model.through(ids, Places(at, at), attend)
        self.seen = at[:, -1:] + 1
        return functional.linear(x, self.model.output_matrix)

    def take(self, rows: Int[Tensor, " row"]) -> None:
        """Keep these rows, in this order (beams that survive)."""
        self.seen = self.seen[rows]
        for layer in self.layers:
            layer.take(rows)


def distinct(ids: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Rows that differ, what is hidden of them, and which of them every row is.

    Many texts after one prompt read it once.
    """
    unseen = torch.zeros_like(ids, dtype=torch.bool) if hidden is None else hidden
    joined = torch.cat([ids, unseen.long()], dim=1)
    rows, which = torch.unique(joined, dim=0, return_inverse=True)
    found, unseen = rows.chunk(2, dim=1)
    return found, unseen.bool(), which
