"""Turn the pair (x_m, x_{m+d/2}) of every query and key by the angle position · base^(−2m/d_head).

Su et al. 2021, section 3.2, with the pairing by halves that most models use. A score then depends
on the distance of the two positions only.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.parts.part import Dims, PositionIds
from attnlab.parts.position.base import Key, Position, Query

Heads = Float[Tensor, "batch some_head pos d_head"]
Angles = Float[Tensor, "#batch 1 pos half"]


class Rotary(Position, name="rotary"):
    """Relative positions by rotation; embeddings are left alone."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        """`base` is the ratio of the slowest turn to the fastest, in the limit of wide heads."""

        base: Annotated[float, Field(gt=1)] = 10_000.0

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        if dims.d_head % 2:
            raise UsageError(f"rotary positions need an even d_head, got {dims.d_head}")
        self.base = config.base

    def on_heads(self, q: Query, k: Key, position_ids: PositionIds) -> tuple[Query, Key]:
        """Both turned by the angles of their own positions, which layers share."""
        key = (self.name, self.base, q.shape[-1], q.dtype)
        if key not in position_ids.memo:
            query_angles = self._angles(position_ids.query, q)
            shared = position_ids.key is position_ids.query
            key_angles = query_angles if shared else self._angles(position_ids.key, k)
            position_ids.memo[key] = query_angles, key_angles
        query_angles, key_angles = position_ids.memo[key]
        return _rotate(q, *query_angles), _rotate(k, *key_angles)

    def _angles(self, ids: Int[Tensor, "#batch pos"], like: Tensor) -> tuple[Angles, Angles]:
        """cos and sin of every angle, computed in float32 at least."""
        half = like.shape[-1] // 2
        exact = torch.promote_types(like.dtype, torch.float32)
        angle = ids[:, None, :, None].to(exact) * self.frequencies(half, exact, like.device)
        return angle.cos().to(like.dtype), angle.sin().to(like.dtype)

    def frequencies(self, half: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """How far each pair turns from one position to the next: base^(−2m/d_head)."""
        return self.base ** -(torch.arange(half, device=device).to(dtype) / half)


def _rotate(x: Heads, cos: Angles, sin: Angles) -> Heads:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
