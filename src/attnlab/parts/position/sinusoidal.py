"""x_t + scale · p_t, p_t[2m] = sin(t/10000^(2m/d)), p_t[2m+1] = cos(t/10000^(2m/d)).

Vaswani et al. 2017, section 3.5. `exponent="reported"` is the slip of a published comparison: the
cosine at odd i takes the exponent i/d instead of (i−1)/d. The sinusoids have size 0.7 (root mean
square) where embeddings start at 0.02; scale = 0.028 makes them equal.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from attnlab.parts.position.base import Embeddings, Position


class Sinusoidal(Position, name="sinusoidal"):
    """Fixed waves of many lengths; any position has its vector."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        """`base` is the ratio of the longest wave to the shortest."""

        scale: float = 1.0
        exponent: Literal["standard", "reported"] = "standard"
        base: Annotated[float, Field(gt=1)] = 10_000.0

    config: Config

    def on_embeddings(self, x: Embeddings, position_ids: Int[Tensor, "#batch pos"]) -> Embeddings:
        """x + scale · p; angles in float32 at least."""
        exact = torch.promote_types(x.dtype, torch.float32)
        i = torch.arange(x.shape[-1], device=x.device)
        odd = i % 2
        exponent = (i - odd if self.config.exponent == "standard" else i).to(exact) / x.shape[-1]
        angle = position_ids[..., None].to(exact) * self.config.base**-exponent
        waves = torch.where(odd == 1, angle.cos(), angle.sin())
        return x + (self.config.scale * waves).to(x.dtype)
