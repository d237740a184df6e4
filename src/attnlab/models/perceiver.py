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

from attnlab.core.errors import UsageError
from attnlab.models.block import Block, FeedForward, States
from attnlab.models.loss import linear_nll
from attnlab.models.perceiver_config import PerceiverConfig
from attnlab.models.protocol import Hidden, Ids, Logits, Map
from attnlab.parts.attention import Attention, Steps
from attnlab.parts.fast import needed
from attnlab.parts.initialise import GPT_STD, normal
from attnlab.parts.mask import Causal, Mask, OwnBlock
from attnlab.parts.part import Places

__all__ = ["Perceiver", "PerceiverConfig"]
Asking = Float[Tensor, "batch query d_model"]
Told = Float[Tensor, "batch key d_model"]
HiddenKeys = Bool[Tensor, "batch key"] | None
# (attention, what asks, what tells, where both stand, what of the latter is padding) -> out
Attend = Callable[[Attention, Asking, Told, Places, HiddenKeys], Asking]


class Perceiver(nn.Module):
    """A language model; `LanguageModel` of protocol.py, with the words of GPT."""

    def __init__(self, config: PerceiverConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config, base = config, config.base
        shape = (base.vocab, base.d_model)
        self.embedding = normal(shape, GPT_STD, generator)
        self.position = base.position.build(base.dims, generator)
        self.latents = normal((config.latents, base.d_model), GPT_STD, generator)
        within = OwnBlock.Config(size=config.span)
        self.local = self._block(within, generator) if config.local else None
        self.input_norm, self.down = self._norm(), self._block(Causal.Config(), generator)
        between = base.layers - 2 - config.local
        self.blocks = nn.ModuleList(self._block(Causal.Config(), generator) for _ in range(between))
        self.latent_norm, self.up = self._norm(), self._block(Causal.Config(), generator)
        self.norm = self._norm()
        self.head = None if base.tie else normal(shape, GPT_STD, generator)

    def _block(self, mask: Mask.Config, generator: torch.Generator) -> Block:
        base = self.config.base
        parts = Attention.Config(
            project=base.project, mask=mask, normalise=base.normalise, merge=base.merge
        )
        attention = Attention(parts, base.dims, self.position, generator)
        feed_forward = FeedForward(base.dims, base.mlp_ratio, generator)
        block = Block(attention, feed_forward, self._norm(), self._norm())
        block.shrink_residual(base.layers)
        return block

    def _norm(self) -> nn.LayerNorm:
        base = self.config.base
        return nn.LayerNorm(base.d_model, base.norm_eps, bias=base.bias)

    @property
    def name(self) -> str:
        """Layers, heads, width, latents and how they read."""
        base = self.config.base
        sizes = (base.layers, base.heads, base.d_model, self.config.latents, self.config.reads)
        return "perceiver-" + "-".join(map(str, sizes))

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return self.config.base.vocab

    @property
    def context(self) -> int:
        """The longest sequence."""
        return self.config.base.block

    @property
    def output_matrix(self) -> Float[Tensor, "vocab d_model"]:
        """W: the embedding itself when tied."""
        return self.embedding if self.head is None else self.head

    def parameter_count(self) -> int:
        """Numbers that can be learnt; a tied matrix counts once."""
        return sum(p.numel() for p in self.parameters())

    def layers(self) -> Iterator[Block]:
        """All blocks, in the order they are passed."""
        first = () if self.local is None else (self.local,)
        between = cast("Iterator[Block]", iter(self.blocks))
        return iter((*first, self.down, *between, self.up))

    def forward(self, ids: Ids, hidden: Hidden = None) -> Logits:
        """Logits of the next id after every position; at hidden positions they mean nothing."""
        return functional.linear(self.states(ids, hidden), self.output_matrix)

    def nll(
        self, ids: Ids, targets: Ids, hidden: Hidden = None
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ −log p over targets that are not IGNORE, and their number; logits are never stored."""
        return linear_nll(self.states(ids, hidden), self.output_matrix, targets)

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

    def _places(self, ids: Ids, hidden: Hidden) -> Places:
        """0, 1, 2 …; where a row is padded on its left, from its first visible token."""
        length = ids.shape[1]
        if length > self.context:
            raise UsageError(f"{length} positions, but this model reads {self.context} at most")
        if hidden is not None and (hidden[:, :-1] & ~hidden[:, 1:]).any():
            return Places.after(hidden)
        at = torch.arange(length, device=ids.device)[None]
        return Places(at, at, plain=True)

    @torch.no_grad()
    def logits(self, ids: Ids, hidden: Hidden = None) -> Logits:
        """`forward` without gradient."""
        return self(ids, hidden)

    @torch.no_grad()
    def attentions(self, ids: Ids) -> list[Map]:
        """The weights of every layer; a place that no latent serves yet has weights 0."""
        return [steps.weights for steps in self.steps(ids)]
