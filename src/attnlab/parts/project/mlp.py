"""q, k, v = three ReLU networks of x with `depth` hidden layers of width d_model, no residual.

`init="torch"` draws weights and biases uniformly in ±1/√d_model like nn.Linear: each layer keeps
about a sixth of the signal's power, so 30 layers leave less than 1e-9 of its size.
`init="preserving"` draws N(0, 2/d_model) in hidden layers (He et al. 2015, equation 10) and
N(0, 1/d_model) in the last, with no biases at the start: the size of x reaches q, k and v.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.parts.initialise import normal, uniform
from attnlab.parts.part import Count, Dims
from attnlab.parts.project.base import Key, KeyRows, Project, Query, QueryRows


class Mlp(Project, name="mlp"):
    """The three networks are kept side by side and run as one."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Project.Config):
        """Hidden layers, and how they start."""

        depth: Count
        init: Literal["torch", "preserving"] = "torch"

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        widths = [dims.d_model] * (config.depth + 1) + [dims.heads * dims.d_head]
        gains = [2.0] * config.depth + [1.0]
        self.layers = nn.ModuleList(
            _Three(sizes, None if config.init == "torch" else gain, dims.bias, generator)
            for sizes, gain in zip(pairwise(widths), gains, strict=True)
        )

    def forward(self, x_query: QueryRows, x_key: KeyRows) -> tuple[Query, Key, Key]:
        """All three at once when queries and keys come from the same rows."""
        if x_query is x_key:
            q, k, v = self._run(x_query, slice(0, 3))
        else:
            (q,), (k, v) = self._run(x_query, slice(0, 1)), self._run(x_key, slice(1, 3))
        return q, k, v

    def _run(
        self, x: Float[Tensor, "batch pos d_model"], which: slice
    ) -> Float[Tensor, "network batch head pos d_head"]:
        """Networks `which` (0 query, 1 key, 2 value) on the same rows."""
        out = x.flatten(0, 1).expand(which.stop - which.start, -1, -1)
        for depth, layer in enumerate(self.layers):
            out = layer(out.relu_() if depth else out, which)  # in place: half the memory
        out = out.unflatten(1, x.shape[:2]).unflatten(-1, (self.heads, -1))
        return out.transpose(2, 3)


class _Three(nn.Module):
    """One layer of the three networks; gain g draws N(0, g/inputs), None is torch's default."""

    def __init__(
        self, sizes: tuple[int, int], gain: float | None, bias: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        inputs, outputs = sizes
        self.bias: nn.Parameter | None = None
        bound = 0.0 if gain is not None else 1 / math.sqrt(inputs)  # as in nn.Linear
        if gain is None:
            self.weight = uniform((3, inputs, outputs), bound, generator)
        else:
            self.weight = normal((3, inputs, outputs), math.sqrt(gain / inputs), generator)
        if bias:  # one row, so that what decays weights only can tell it by its shape
            self.bias = uniform((3 * outputs,), bound, generator)

    def forward(
        self, x: Float[Tensor, "network row inputs"], which: slice
    ) -> Float[Tensor, "network row outputs"]:
        """x W + b of the networks `which`."""
        if self.bias is None:
            return torch.bmm(x, self.weight[which])
        return torch.baddbmm(self.bias.view(3, 1, -1)[which], x, self.weight[which])
