"""The GPT of the house: embeddings, blocks of attention made of parts, one output matrix.

    x = position(embedding[ids]);   x = block(x) for every layer;   logits = W · norm(x)

With the default parts this is GPT-2 (Radford et al. 2019): W is the embedding itself, weights start
at N(0, 0.02²), and the maps that return to x are divided by √(2·layers).
"""

from collections.abc import Callable, Iterator
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.errors import UsageError
from attnlab.models.block import Block, FeedForward, States
from attnlab.models.cached import CachedGPT
from attnlab.models.config import SIZES, GPTConfig
from attnlab.models.loss import linear_nll
from attnlab.models.protocol import Hidden, Ids, Logits, Map
from attnlab.parts.attention import Attention, Steps
from attnlab.parts.fast import needed
from attnlab.parts.initialise import GPT_STD, normal
from attnlab.parts.part import Places

__all__ = ["GPT", "SIZES", "GPTConfig"]


class GPT(nn.Module):
    """A language model; `LanguageModel` of protocol.py, and more."""

    def __init__(self, config: GPTConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config, dims = config, config.dims
        shape = (config.vocab, config.d_model)
        self.embedding = normal(shape, GPT_STD, generator)
        self.position = config.position.build(dims, generator)
        self.blocks = nn.ModuleList(self._block(generator) for _ in range(config.layers))
        self.norm = self._norm()
        self.head = None if config.tie else normal(shape, GPT_STD, generator)

    def _block(self, generator: torch.Generator) -> Block:
        config, dims = self.config, self.config.dims
        attention = Attention(config.attention, dims, self.position, generator)
        feed_forward = FeedForward(dims, config.mlp_ratio, generator)
        block = Block(attention, feed_forward, self._norm(), self._norm())
        block.shrink_residual(config.layers)
        return block

    def _norm(self) -> nn.LayerNorm:
        return nn.LayerNorm(self.config.d_model, self.config.norm_eps, bias=self.config.bias)

    @property
    def name(self) -> str:
        """Layers, heads and width."""
        return f"gpt-{self.config.layers}-{self.config.heads}-{self.config.d_model}"

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return self.config.vocab

    @property
    def context(self) -> int:
        """The longest sequence."""
        return self.config.block

    @property
    def output_matrix(self) -> Float[Tensor, "vocab d_model"]:
        """W: the embedding itself when tied."""
        return self.embedding if self.head is None else self.head

    def parameter_count(self) -> int:
        """Numbers that can be learnt; a tied matrix counts once."""
        return sum(p.numel() for p in self.parameters())

    def layers(self) -> Iterator[Block]:
        """The blocks, first to last."""
        return cast("Iterator[Block]", iter(self.blocks))

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
        places = self._places(ids, hidden)
        if hidden is not None:  # asked once here instead of in every layer
            hidden = needed(hidden, self._first.mask, self._first.merge)
        return self.through(ids, places, lambda attention, x: attention(x, places, hidden))

    def steps(self, ids: Ids, hidden: Hidden = None) -> list[Steps]:
        """Everything that attention computes, one record a layer."""
        places, found = self._places(ids, hidden), []

        def note(attention: Attention, x: States) -> States:
            found.append(attention.steps(x, x, places, hidden))
            return found[-1].out

        self.through(ids, places, note)
        return found

    def through(
        self, ids: Ids, places: Places, attend: Callable[[Attention, States], States]
    ) -> States:
        """Embedding, blocks and the last norm, with the attention of each layer run by `attend`."""
        x = self.position.on_embeddings(functional.embedding(ids, self.embedding), places.query)
        for block in self.layers():
            x = block(x, attend)
        return self.norm(x)

    def _places(self, ids: Ids, hidden: Hidden) -> Places:
        """0, 1, 2 …; where a row is padded on its left, from its first visible token."""
        length = ids.shape[1]
        if length > self.context:
            raise UsageError(f"{length} positions, but this model reads {self.context} at most")
        if hidden is not None and (hidden[:, :-1] & ~hidden[:, 1:]).any():
            return Places.after(hidden)
        at = torch.arange(length, device=ids.device)[None]
        return Places(at, at, plain=True)

    @property
    def _first(self) -> Attention:
        return next(self.layers()).attention

    @torch.no_grad()
    def logits(self, ids: Ids, hidden: Hidden = None) -> Logits:
        """`forward` without gradient."""
        return self(ids, hidden)

    @torch.no_grad()
    def attentions(self, ids: Ids) -> list[Map]:
        """The weights of every layer."""
        return [steps.weights for steps in self.steps(ids)]

    def cached(self, batch: int, length: int) -> CachedGPT:
        """The same model one token at a time, with room for `length` tokens of `batch` rows."""
        return CachedGPT.from_gpt(self, batch, length)
