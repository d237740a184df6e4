"""Seam `norm`: x -> x / size(x) · weight, every position on its own."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.parts.part import Dims, Part

Rows = Float[Tensor, "*rows d_model"]


class Norm(Part):
    """`weight` is 1 at the start; `eps` (the model's `norm_eps`) is added to the mean square."""

    bias: nn.Parameter | None

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Norm"]):
        """Nothing that all norms share: their eps is the model's."""

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.eps = dims.norm_eps
        self.weight, self.bias = nn.Parameter(torch.ones(dims.d_model)), None

    def forward(self, x: Rows) -> Rows:
        """The normalised vectors."""
        raise NotImplementedError
