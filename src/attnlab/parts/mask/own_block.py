"""j <= i and ⌊j/size⌋ = ⌊i/size⌋: what came before, inside one's own block of `size` positions.

size 2   query 0   x . . .
         query 1   x x . .
         query 2   . . x .
         query 3   . . x x
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from attnlab.parts.mask.base import Allowed, KeyPositions, Mask, QueryPositions
from attnlab.parts.part import Dims


class OwnBlock(Mask, name="own-block"):
    """Causal inside each block, nothing across."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Mask.Config):
        """`size`: positions of a block; the first block begins at position 0."""

        size: Annotated[int, Field(ge=1)]

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.size = config.size

    @property
    def causal(self) -> bool:
        """True: no later position is ever allowed."""
        return True

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """j <= i, and no border between them."""
        return (key <= query) & (key // self.size == query // self.size)

    def expected_failed_checks(self) -> dict[str, str]:
        """A block of one is the mask `self`."""
        idle = {"gradient": "the one weight of a query is 1, whatever its score"}
        return idle if self.size == 1 else {}
