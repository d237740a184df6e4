"""Seam `norm`: x -> x / size(x) · weight, every position on its own."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.parts.part import Dims, Part

Rows = Float[Tensor, "*rows d_model"]


class Norm(Part):
    """`weight` is 1 at the start; `eps` (the model's `norm_eps`) is added to the mean square."""

    has_bias: ClassVar[bool] = False  # where the model's linear maps have one

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Norm"]):
        """Nothing that all norms share: their eps is the model's."""

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.eps = dims.norm_eps
        self.weight = nn.Parameter(torch.ones(dims.d_model))
        biased = self.has_bias and dims.bias
        self.bias = nn.Parameter(torch.zeros(dims.d_model)) if biased else None

    def forward(self, x: Rows) -> Rows:
        """The normalised vectors."""
        raise NotImplementedError
