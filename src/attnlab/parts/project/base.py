"""Seam `project`: q, k, v = project(x_query, x_key)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.parts.part import Dims, Key, KeyRows, Part, Query, QueryRows


class Project(Part):
    """Maps every position on its own to a query for each head, a key and a value for each group."""

    grouped: ClassVar[bool] = False  # whether there may be fewer heads of keys than of queries

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Project"]):
        """Nothing that all projections share."""

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.heads, self.kv_heads = dims.heads, dims.kv_heads
        if self.kv_heads != self.heads and not self.grouped:
            raise UsageError(f"the projection {self.name!r} needs as many kv_heads as heads")

    def forward(self, x_query: QueryRows, x_key: KeyRows) -> tuple[Query, Key, Key]:
        """Queries of x_query; keys and values of x_key (the same object in self-attention)."""
        raise NotImplementedError

    def split(
        self, x: Float[Tensor, "batch pos inner"], heads: int | None = None
    ) -> Float[Tensor, "batch some_head pos d_head"]:
        """The last axis cut into heads; by default, into as many as queries have."""
        return x.unflatten(-1, (heads or self.heads, -1)).transpose(1, 2)


def repeat_heads(x: Key, heads: int) -> Float[Tensor, "batch head key d_head"]:
    """Every head of keys or values as often as query heads share it, so that there are `heads`."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)
