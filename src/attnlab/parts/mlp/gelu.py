"""W₂ gelu(W₁ x), gelu by its tanh formula (Hendrycks, Gimpel 2016), as in GPT-2."""

import torch
from torch.nn.functional import gelu

from attnlab.parts.mlp.base import Mlp, States
from attnlab.parts.part import Dims


class Gelu(Mlp, name="gelu"):
    """Two linear maps with a smooth step between."""

    def __init__(self, config: Mlp.Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.build_maps(dims, dims.d_mlp, generator)

    def forward(self, x: States) -> States:
        """W₂ gelu(W₁ x)."""
        return self.out(gelu(self.wide(x), approximate="tanh"))
