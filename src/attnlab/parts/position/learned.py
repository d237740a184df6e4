"""x_t + p_t with a trained vector for every position up to the block's length (GPT-2)."""

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

from attnlab.parts.initialise import GPT_STD, normal
from attnlab.parts.part import Dims
from attnlab.parts.position.base import Embeddings, Position


class Learned(Position, name="learned"):
    """`table` has one row a position, N(0, 0.02²) at the start."""

    def __init__(self, config: Position.Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.table = normal((dims.block, dims.d_model), GPT_STD, generator)

    def on_embeddings(self, x: Embeddings, position_ids: Int[Tensor, "#batch pos"]) -> Embeddings:
        """x + table[position]; positions before the text (left padding) take the first row."""
        return x + functional.embedding(position_ids.clamp_min(0), self.table)
