"""A GPT one token at a time: what its layers have read is kept, nothing is computed twice.

cached = model.cached(batch=2, length=128)
cached.step(ids[:, :5]);  cached.step(ids[:, 5:6])      # rows of model(ids), piece by piece
"""

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.models.block import States
from attnlab.models.protocol import Ids, PaddingMask
from attnlab.parts.attention import Attention
from attnlab.parts.cached import CachedAttention, TextSoFar

if TYPE_CHECKING:
    from attnlab.models.gpt import GPT


class CachedGPT:
    """A model and what its layers have kept; refused where a token could change what was read."""

    def __init__(self, model: "GPT", batch: int, length: int) -> None:
        model.check_length(length)
        self.model, self.text = model, TextSoFar(batch, length)
        self.layers = [CachedAttention(block.attention, self.text) for block in model.layers()]
        # real tokens of each row so far
        self.seen = torch.zeros((batch, 1), dtype=torch.int64, device=model.embedding.device)

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
            layer.take(rows)


def distinct(ids: Tensor, key_padding_mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """The rows that differ, their padding mask, and which of them each row is.

    Many texts after one prompt read it once.
    """
    mask = torch.zeros_like(ids, dtype=torch.bool) if key_padding_mask is None else key_padding_mask
    rows, which = torch.unique(torch.cat([ids, mask.long()], dim=1), dim=0, return_inverse=True)
    different, mask = rows.chunk(2, dim=1)
    return different, mask.bool(), which
