"""heads[b,h,t] · w[b,h,t],  w[b,h,t] = ‖heads[b,h,0…t]‖ / the sum of that over the heads.

The re-weighting that a language model may use: norms over positions up to t only.
"""

from dataclasses import dataclass

import torch

from attnlab.parts.merge.base import Heads, Merge
from attnlab.parts.part import Dims


class ReweightCausal(Merge, name="reweight-causal"):
    """Louder heads count more, as far as has been read."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Merge.Config):
        """With `off_at_inference`, evaluation divides by the number of heads, the mean weight."""

        off_at_inference: bool = False

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.off_at_inference = config.off_at_inference

    def arrange(self, heads: Heads) -> Heads:
        """Each head times its weight so far."""
        if self.off_at_inference and not self.training:
            return heads / heads.shape[1]
        tiny = torch.finfo(heads.dtype).tiny
        power = heads.square().sum(dim=3, keepdim=True).cumsum(dim=2)
        norm = power.clamp_min(tiny).sqrt()  # at 0 the slope of the root is not a number
        return heads * (norm / norm.sum(dim=1, keepdim=True))
