"""A GPT one token at a time: what its layers have read is kept, nothing is computed twice.

cached = model.cached(batch=2, length=128)
cached.step(ids[:, :5]);  cached.step(ids[:, 5:6])      # rows of model(ids), piece by piece
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.models.block import States
from attnlab.models.protocol import Ids, PaddingMask
from attnlab.parts.attention import Attention
from attnlab.parts.cached import CachedAttention, TextSoFar

if TYPE_CHECKING:
    from attnlab.models.gpt import GPT


@dataclass
class CachedGPT:
    """A model and what each of its layers has kept."""

    model: "GPT"
    layers: list[CachedAttention]
    text: TextSoFar
    seen: Int[Tensor, "batch 1"]  # real tokens of each row so far

    @staticmethod
    def from_gpt(model: "GPT", batch: int, length: int) -> "CachedGPT":
        """Refused where a token to come could change what is already read."""
        if length > model.context:
            raise UsageError(f"{length} positions, but this model reads {model.context} at most")
        text = TextSoFar(batch, length)
        layers = [
            CachedAttention.from_attention(block.attention, batch, length, text)
            for block in model.layers()
        ]
        seen = torch.zeros((batch, 1), dtype=torch.int64, device=model.embedding.device)
        return CachedGPT(model, layers, text, seen)

    @torch.no_grad()
    def step(
        self, ids: Ids, key_padding_mask: PaddingMask = None, *, last_only: bool = False
    ) -> Float[Tensor, "batch new vocab"]:
        """The logits after each of the new ids, or the last; padding on the left is skipped."""
        real = torch.ones_like(ids) if key_padding_mask is None else (~key_padding_mask).long()
        at = self.seen + real.cumsum(dim=1) - 1
        self.text.check_room(*ids.shape)
        read = self.text.append(at, key_padding_mask)
        caches = iter(self.layers)

        def attend(attention: Attention, x: States) -> States:
            del attention  # the cache holds it
            return next(caches).read(x, read)

        x = self.model.through(ids, read.new, attend)
        self.seen = at[:, -1:] + 1
        return self.model.to_logits(x[:, -1:] if last_only else x)

    def take(self, rows: Int[Tensor, " row"]) -> None:
        """Keep these rows, in this order (beams that survive)."""
        self.seen = self.seen[rows]
        self.text.take(rows)
        for layer in self.layers:
            layer.take_keys(rows)


def distinct(ids: Tensor, key_padding_mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The rows that differ, their padding mask, and which of them each row is.

    Many texts after one prompt read it once.
    """
    mask = torch.zeros_like(ids, dtype=torch.bool) if key_padding_mask is None else key_padding_mask
    rows, which = torch.unique(torch.cat([ids, mask.long()], dim=1), dim=0, return_inverse=True)
    different, mask = rows.chunk(2, dim=1)
    return different, mask.bool(), which
