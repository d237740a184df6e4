"""A causal Perceiver: the sequence is read into m latents, which think, and read back from them.

    x = position(embedding[ids]);    x = local(x)                 reads = "block+local" only
    z = down(latents; x)             latent j reads x at places up to its own
    z = block(z)  for every layer between
    x = up(x; z)                     place t reads latents that stand at t or before
    logits = W · norm(x)

Causal because of where the latents stand: what latent j knows is known at its place p_j, and only
places t >= p_j read it. With p_j = j (as a course has it, by cutting a triangular mask to m rows)
inputs from place m on are read by no latent at all: causal, and blind. With p_j at the end of block
j, the latents read every finished block; what is unfinished is left to the local layer. After
Jaegle et al. 2021 (arXiv 2103.03206) and Hawthorne et al. 2022 (arXiv 2202.07765).
"""

from collections.abc import Callable, Iterator
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attnlab.models.base import OwnModel
from attnlab.models.block import Block, States
from attnlab.models.perceiver_config import PerceiverConfig
from attnlab.models.protocol import Hidden, Ids
from attnlab.parts.attention import Attention, Steps
from attnlab.parts.fast import needed
from attnlab.parts.initialise import GPT_STD, normal
from attnlab.parts.mask import Causal, OwnBlock
from attnlab.parts.part import Places

__all__ = ["Perceiver", "PerceiverConfig"]
Asking = Float[Tensor, "batch query d_model"]
Told = Float[Tensor, "batch key d_model"]
HiddenKeys = Bool[Tensor, "batch key"] | None
# (attention, what asks, what tells, where both stand, what of the latter is padding) -> out
Attend = Callable[[Attention, Asking, Told, Places, HiddenKeys], Asking]


class Perceiver(OwnModel):
    """Latents between two readings."""

    def __init__(self, config: PerceiverConfig, generator: torch.Generator) -> None:
        super().__init__(config.base, generator)
        self.config, base = config, config.base
        self.latents = normal((config.latents, base.d_model), GPT_STD, generator)
        within = OwnBlock.Config(size=config.span)
        self.local = self._block(within, generator) if config.local else None
        self.input_norm, self.down = self._norm(), self._block(Causal.Config(), generator)
        between = base.layers - 2 - config.local
        self.blocks = nn.ModuleList(self._block(Causal.Config(), generator) for _ in range(between))
        self.latent_norm, self.up = self._norm(), self._block(Causal.Config(), generator)
        self.norm = self._norm()
        self.head = self._matrix(generator)

    @property
    def name(self) -> str:
        """Layers, heads, width, latents and how they read."""
        base = self.config.base
        sizes = (base.layers, base.heads, base.d_model, self.config.latents, self.config.reads)
        return "perceiver-" + "-".join(map(str, sizes))

    def layers(self) -> Iterator[Block]:
        """All blocks, in the order they are passed."""
        first = () if self.local is None else (self.local,)
        between = cast("Iterator[Block]", iter(self.blocks))
        return iter((*first, self.down, *between, self.up))

    def states(self, ids: Ids, hidden: Hidden = None) -> States:
        """What the output matrix is applied to."""
        if hidden is not None:
            hidden = needed(hidden, self.down.attention.mask, self.down.attention.merge)
        return self.through(ids, hidden, self._fast)

    def steps(self, ids: Ids, hidden: Hidden = None) -> list[Steps]:
        """Everything that attention computes, one record a layer: local, down, between, up."""
        found: list[Steps] = []

        def note(
            attention: Attention, query: Asking, key: Told, places: Places, hidden: HiddenKeys
        ) -> Asking:
            found.append(attention.steps(query, key, places, hidden))
            return found[-1].out

        self.through(ids, hidden, note)
        return found

    def through(self, ids: Ids, hidden: Hidden, attend: Attend) -> States:
        """Every layer and the last norm, with the attention of each run by `attend`."""
        here = self._places(ids, hidden)
        x = functional.embedding(ids, self.embedding)
        x = self.position.on_embeddings(x, here.query)
        if self.local is not None:
            x = self.local(x, lambda a, h: attend(a, h, h, here, hidden))
        at = self.latent_places(ids.shape[1]).to(ids.device)
        told = self.input_norm(x)
        z = self.latents[: at.shape[1]].expand(len(ids), -1, -1)
        z = self.down(z, lambda a, h: attend(a, h, told, Places(at, here.key), hidden))
        for block in cast("Iterator[Block]", iter(self.blocks)):
            z = block(z, lambda a, h: attend(a, h, h, Places(at, at), None))
        known = self.latent_norm(z)
        x = self.up(x, lambda a, h: attend(a, h, known, Places(here.query, at), None))
        return self.norm(x)

    def latent_places(self, length: int) -> Int[Tensor, "1 latent"]:
        """Where the latents stand that a text of this length can read; at least one is kept."""
        span = self.config.span
        used = min(self.config.latents, max(1, length // span))
        return (torch.arange(1, used + 1) * span - 1)[None]

    def _fast(
        self, attention: Attention, query: Asking, key: Told, places: Places, hidden: HiddenKeys
    ) -> Asking:
        """The shortest exact way: a block that attends to itself alone is a row of its own."""
        alone = self.local is not None and attention is self.local.attention
        if alone and places.plain and hidden is None:
            return self._row_by_block(attention, query)
        q, k, v = attention.project(query, key)
        return attention.out(q, k, v, places, hidden)

    def _row_by_block(self, attention: Attention, x: States) -> States:
        """Blocks as rows: `length · span` scores a head instead of `length²`."""
        rows, length, width = x.shape
        span = self.config.span
        short = -length % span
        filled = functional.pad(x, (0, 0, 0, short)).reshape(-1, span, width)
        q, k, v = attention.project(filled, filled)
        out = attention.out(q, k, v, Places.of(q, k), None)
        return out.reshape(rows, length + short, width)[:, :length]
