"""ALiBi: subtract slope_h · |i − j| from every score (Press et al. 2022, section 3)."""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from attnlab.parts.part import PositionIds
from attnlab.parts.position.base import Position, Scores


class Alibi(Position, name="alibi"):
    """Distance costs; each head at its own rate."""

    additive = True

    @dataclass(frozen=True, kw_only=True)
    class Config(Position.Config):
        """The slope of head h = 1 … heads is 2^(−base · h / heads)."""

        base: Annotated[float, Field(gt=0)] = 8.0

    config: Config

    def on_scores(self, scores: Scores, position_ids: PositionIds) -> Scores:
        """scores − slope · distance."""
        heads = scores.shape[1]
        exact = torch.promote_types(scores.dtype, torch.float32)
        head = torch.arange(1, heads + 1, device=scores.device).to(exact)
        slope = torch.exp2(-self.config.base * head / heads)[:, None, None]
        distance = (position_ids.query[:, None, :, None] - position_ids.key[:, None, None, :]).abs()
        return scores - (slope * distance).to(scores.dtype)
