"""Seam `mlp`: x -> out(hidden units of x), every position on its own."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.parts.initialise import linear
from attnlab.parts.part import Dims, Part

States = Float[Tensor, "batch pos d_model"]


class Mlp(Part):
    """`wide` is the first map, `out` the one back to d_model, with `d_mlp` hidden units between."""

    products: ClassVar[int] = 1  # how many maps to the hidden units `wide` holds

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Mlp"]):
        """Nothing that all MLPs share: their width is the model's `d_mlp`."""

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.wide = linear(dims.d_model, self.products * dims.d_mlp, dims.bias, generator)
        self.out = linear(dims.d_mlp, dims.d_model, dims.bias, generator)

    def forward(self, x: States) -> States:
        """What is added to x."""
        raise NotImplementedError
