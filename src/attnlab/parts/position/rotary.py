"""Turn the pair (x_m, x_{m+d/2}) of every query and key by the angle place · base^(−2m/d_head).

Su et al. 2021, section 3.2, with the pairing by halves that most models use. A score then depends
on the distance of the two places only.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.parts.part import Dims, Places
from attnlab.parts.position.base import Key, Position, Query


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

    def on_heads(self, q: Query, k: Key, places: Places) -> tuple[Query, Key]:
        """Both turned by their own places."""
        return self._turn(q, places.query), self._turn(k, places.key)

    def _turn(
        self, x: Float[Tensor, "batch head pos d_head"], places: Int[Tensor, "#batch pos"]
    ) -> Float[Tensor, "batch head pos d_head"]:
        half = x.shape[-1] // 2
        exact = torch.promote_types(x.dtype, torch.float32)  # angles, whatever x is kept in
        exponent = torch.arange(half, device=x.device).to(exact) / half
        angle = places[:, None, :, None].to(exact) * self.base**-exponent
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        first, second = x[..., :half], x[..., half:]
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
