"""Seam `merge`: heads -> out."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.parts.initialise import linear
from attnlab.parts.part import Dims, Part

Heads = Float[Tensor, "batch head pos d_head"]


class Merge(Part):
    """out = W_o · (the heads side by side, after `arrange`). `out` is the map of every merge."""

    per_position: ClassVar[bool] = False  # a position's output depends on its own heads alone

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Merge"]):
        """Nothing that all merges share."""

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.out = linear(dims.heads * dims.d_head, dims.d_model, dims.bias, generator)

    @property
    def why_not_cached(self) -> str | None:
        """Why decoding cannot go token by token with this merge; None when it can."""
        return None if self.per_position else "its output mixes positions"

    def arrange(self, heads: Heads) -> Heads:
        """What a variant does to the heads before the output map."""
        raise NotImplementedError

    def forward(self, heads: Heads) -> Float[Tensor, "batch pos d_model"]:
        """W_o times the arranged heads side by side."""
        return self.out(self.arrange(heads).transpose(1, 2).flatten(2))
