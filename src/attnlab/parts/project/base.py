"""Seam `project`: q, k, v = project(x_query, x_key)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.parts.part import Dims, Part

Rows = Float[Tensor, "batch pos d_model"]
Query = Float[Tensor, "batch head query d_head"]
Key = Float[Tensor, "batch head key d_head"]


class Project(Part):
    """Maps every position on its own to a query, a key and a value for each head."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Project"]):
        """Nothing that all projections share."""

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.heads = dims.heads

    def forward(
        self,
        x_query: Float[Tensor, "batch query d_model"],
        x_key: Float[Tensor, "batch key d_model"],
    ) -> tuple[Query, Key, Key]:
        """Queries of x_query; keys and values of x_key (the same object in self-attention)."""
        raise NotImplementedError

    def split(self, x: Float[Tensor, "batch pos inner"]) -> Float[Tensor, "batch head pos d_head"]:
        """The last axis cut into heads."""
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
