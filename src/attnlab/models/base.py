"""What GPT and Perceiver share: ids in, one matrix out, blocks of attention in between.

    logits = W · states(ids)         W: the embedding itself when tied

A model says what its states are; loss, logits, positions and blocks are here.
"""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.errors import UsageError
from attnlab.models.block import Block, States
from attnlab.models.config import GPTConfig
from attnlab.models.loss import linear_nll
from attnlab.models.protocol import Ids, Logits, Map, PaddingMask
from attnlab.parts.attention import Attention, Steps
from attnlab.parts.initialise import GPT_STD, normal
from attnlab.parts.mask import Mask
from attnlab.parts.norm import Norm
from attnlab.parts.part import Dims, PositionIds


class Transformer(nn.Module):
    """What GPT and Perceiver share; it has all that protocol.py asks of a `LanguageModel`."""

    head: nn.Parameter | None
    tokenizer: Any = None  # the one it was loaded with, where there is one

    def __init__(self, shape: GPTConfig, generator: torch.Generator) -> None:
        super().__init__()
        self._shape = shape
        self.embedding = normal((shape.vocab, shape.d_model), GPT_STD, generator)
        self.position = shape.position.build(shape.dims, generator)

    def states(self, ids: Ids, key_padding_mask: PaddingMask = None) -> States:
        """What the output matrix is applied to."""
        raise NotImplementedError

    def steps(self, ids: Ids, key_padding_mask: PaddingMask = None) -> list[Steps]:
        """Everything that attention computes, one record a layer."""
        raise NotImplementedError

    def _matrix(self, generator: torch.Generator) -> nn.Parameter | None:
        """An output matrix of its own, unless the embedding is it; made last."""
        shape = (self._shape.vocab, self._shape.d_model)
        return None if self._shape.tie else normal(shape, GPT_STD, generator)

    def _norm(self, generator: torch.Generator) -> Norm:
        return self._shape.norm.build(self._shape.dims, generator)

    def _block(
        self, mask: Mask.Config, generator: torch.Generator, dims: Dims | None = None
    ) -> Block:
        """A layer of the model's sizes, or of other `dims`."""
        shape = self._shape
        dims = dims or shape.dims
        parts = replace(shape.attention, mask=mask)
        attention = Attention(parts, dims, self.position, generator)
        mlp = shape.mlp.build(dims, generator)
        block = Block(attention, mlp, self._norm(generator), self._norm(generator))
        block.shrink_residual(shape.layers)
        return block

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return self._shape.vocab

    @property
    def context(self) -> int:
        """The longest sequence."""
        return self._shape.block

    @property
    def output_matrix(self) -> Float[Tensor, "vocab d_model"]:
        """W: the embedding itself when tied."""
        return self.embedding if self.head is None else self.head

    def parameter_count(self) -> int:
        """Number of parameters; a tied matrix counts once."""
        return sum(p.numel() for p in self.parameters())

    def forward(self, ids: Ids, key_padding_mask: PaddingMask = None) -> Logits:
        """Logits of the next id after every position; at padding they mean nothing."""
        return self.to_logits(self.states(ids, key_padding_mask))

    def to_logits(self, states: States) -> Logits:
        """The output matrix times the states."""
        return functional.linear(states, self.output_matrix)

    def nll(
        self, ids: Ids, targets: Ids, key_padding_mask: PaddingMask = None
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ −log p over targets that are not IGNORE, and their number; logits are never stored."""
        return linear_nll(self.states(ids, key_padding_mask), self.output_matrix, targets)

    @torch.no_grad()
    def logits(self, ids: Ids, key_padding_mask: PaddingMask = None) -> Logits:
        """`forward` without gradient."""
        return self(ids, key_padding_mask)

    @torch.no_grad()
    def attentions(self, ids: Ids) -> list[Map]:
        """The weights of every layer."""
        return [steps.weights for steps in self.steps(ids)]

    def check_length(self, length: int) -> None:
        """Refuse more positions than the model reads."""
        if length > self.context:
            raise UsageError(f"{length} positions, but this model reads {self.context} at most")

    def _position_ids(self, ids: Ids, key_padding_mask: PaddingMask) -> PositionIds:
        """0, 1, 2 …; where a row is padded on its left, from its first real token."""
        self.check_length(ids.shape[1])
        mask = key_padding_mask
        if mask is not None and (mask[:, :-1] & ~mask[:, 1:]).any():
            return PositionIds.after(mask)
        at = torch.arange(ids.shape[1], device=ids.device)[None]
        return PositionIds(at, at, plain=True)
