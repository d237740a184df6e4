"""q = U_q V_q x with V_q of `rank` rows, likewise k and v: maps of low rank, all heads together."""

import math
from dataclasses import dataclass

import torch

from attnlab.core.errors import UsageError
from attnlab.parts.initialise import linear, normal_
from attnlab.parts.part import Count, Dims
from attnlab.parts.project.base import Key, KeyRows, Project, Query, QueryRows


class LowRank(Project, name="low-rank"):
    """The product starts with the size 0.02 of a plain map: V ~ N(0, 1/rank), U ~ N(0, 0.02²)."""

    grouped = True

    @dataclass(frozen=True, kw_only=True)
    class Config(Project.Config):
        """The rank of each of the three maps."""

        rank: Count

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.rank, inner = config.rank, dims.heads * dims.d_head
        kv_inner = dims.kv_heads * dims.d_head
        if self.rank > min(dims.d_model, inner):
            raise UsageError(f"rank {self.rank} is above the full {min(dims.d_model, inner)}")
        self.down = linear(dims.d_model, 3 * self.rank, False, generator)
        normal_(self.down.weight, 1 / math.sqrt(self.rank), generator)
        self.up_query = linear(self.rank, inner, dims.bias, generator)
        self.up_key = linear(self.rank, kv_inner, dims.bias, generator)
        self.up_value = linear(self.rank, kv_inner, dims.bias, generator)

    def forward(self, x_query: QueryRows, x_key: KeyRows) -> tuple[Query, Key, Key]:
        """One product down, three up."""
        q, k, v = self.down(x_key).split(self.rank, dim=-1)
        if x_query is not x_key:
            q = self.down(x_query)[..., : self.rank]
        return (
            self.split(self.up_query(q)),
            self.split(self.up_key(k), self.kv_heads),
            self.split(self.up_value(v), self.kv_heads),
        )
