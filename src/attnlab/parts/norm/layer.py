"""(x − mean) / √(variance + eps) · weight + bias (Ba, Kiros, Hinton 2016)."""

import torch
from torch import nn
from torch.nn.functional import layer_norm

from attnlab.parts.norm.base import Norm, Rows
from attnlab.parts.part import Dims


class Layer(Norm, name="layer"):
    """LayerNorm; without a bias where the model's linear maps have none."""

    def __init__(self, config: Norm.Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        if dims.bias:
            self.bias = nn.Parameter(torch.zeros(dims.d_model))

    def forward(self, x: Rows) -> Rows:
        """Mean 0 and variance 1, then weight and bias."""
        return layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
