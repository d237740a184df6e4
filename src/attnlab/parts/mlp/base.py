"""Seam `mlp`: x -> out(hidden units of x), every position on its own."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.parts.initialise import linear
from attnlab.parts.part import Dims, Part

States = Float[Tensor, "batch pos d_model"]


class Mlp(Part):
    """`wide` is the first map, `out` the one back to d_model, with `d_mlp` hidden units between."""

    wide: nn.Linear
    out: nn.Linear

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Mlp"]):
        """Nothing that all MLPs share: their width is the model's `d_mlp`."""

    def build_maps(self, dims: Dims, units: int, generator: torch.Generator) -> None:
        """Draw `wide` (to so many units), then `out`."""
        self.wide = linear(dims.d_model, units, dims.bias, generator)
        self.out = linear(dims.d_mlp, dims.d_model, dims.bias, generator)

    def forward(self, x: States) -> States:
        """What is added to x."""
        raise NotImplementedError
