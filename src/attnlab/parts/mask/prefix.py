"""j <= i or j < length: causal, but a prefix is seen by all, itself included (prefix LM).

length 2   query 0   x x . .
           query 1   x x . .
           query 2   x x x .
           query 3   x x x x
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from attnlab.parts.mask.base import Allowed, KeyPositions, Mask, QueryPositions
from attnlab.parts.part import Dims


class Prefix(Mask, name="prefix"):
    """Not causal inside the prefix."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Mask.Config):
        """Positions 0 … length − 1 are the prefix."""

        length: Annotated[int, Field(ge=0)]

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.length = config.length
        self.causal = config.length <= 1  # a prefix of one is seen by later positions anyway

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """j <= i or j < length."""
        return (key <= query) | (key < self.length)
