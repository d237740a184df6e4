"""Our GPT: embeddings, blocks of attention made of parts, one output matrix.

    x = position(embedding[ids]);   x = block(x) for every layer;   logits = W · norm(x)

With the default parts this is GPT-2 (Radford et al. 2019): W is the embedding itself, weights start
at N(0, 0.02²), and the maps that return to x are divided by √(2·layers).
"""

from collections.abc import Callable, Iterator
from typing import cast

import torch
from torch import nn
from torch.nn import functional

from attnlab.models.base import Transformer
from attnlab.models.block import Block, States
from attnlab.models.cached import CachedGPT
from attnlab.models.config import SIZES, GPTConfig
from attnlab.models.protocol import Ids, PaddingMask
from attnlab.parts.attention import Attention, Steps
from attnlab.parts.fast import needed_padding_mask
from attnlab.parts.part import PositionIds

__all__ = ["GPT", "SIZES", "GPTConfig"]


class GPT(Transformer):
    """Decoder-only: every block of attention reads what the one before it wrote."""

    def __init__(self, config: GPTConfig, generator: torch.Generator) -> None:
        super().__init__(config, generator)
        self.config = config
        blocks = (self._block(config.mask, generator) for _ in range(config.layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm = self._norm(generator)
        self.head = self._matrix(generator)

    @property
    def name(self) -> str:
        """Layers, heads and width."""
        return f"gpt-{self.config.layers}-{self.config.heads}-{self.config.d_model}"

    def layers(self) -> Iterator[Block]:
        """The blocks, first to last."""
        return cast("Iterator[Block]", iter(self.blocks))

    def states(self, ids: Ids, key_padding_mask: PaddingMask = None) -> States:
        """What the output matrix is applied to."""
        position_ids = self._position_ids(ids, key_padding_mask)
        if key_padding_mask is not None:  # asked once here instead of in every layer
            first = next(self.layers()).attention
            key_padding_mask = needed_padding_mask(key_padding_mask, first.mask, first.merge)
        return self.through(
            ids, position_ids, lambda attention, x: attention(x, position_ids, key_padding_mask)
        )

    def steps(self, ids: Ids, key_padding_mask: PaddingMask = None) -> list[Steps]:
        """Everything that attention computes, one record a layer."""
        position_ids, records = self._position_ids(ids, key_padding_mask), []

        def note(attention: Attention, x: States) -> States:
            records.append(attention.steps(x, x, position_ids, key_padding_mask))
            return records[-1].out

        self.through(ids, position_ids, note)
        return records

    def through(
        self, ids: Ids, position_ids: PositionIds, attend: Callable[[Attention, States], States]
    ) -> States:
        """Embedding, blocks and the last norm, with the attention of each layer run by `attend`."""
        x = functional.embedding(ids, self.embedding)
        x = self.position.on_embeddings(x, position_ids.query)
        for block in self.layers():
            x = block(x, attend)
        return self.norm(x)

    def cached(self, batch: int, length: int) -> CachedGPT:
        """The same model one token at a time, with room for `length` tokens of `batch` rows."""
        return CachedGPT(self, batch, length)
