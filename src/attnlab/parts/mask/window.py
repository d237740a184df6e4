"""i − size < j <= i: the last `size` positions, oneself included (sliding window).

size 2   query 0   x . . .
         query 1   x x . .
         query 2   . x x .
         query 3   . . x x
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field

from attnlab.parts.mask.base import Allowed, KeyPositions, Mask, QueryPositions
from attnlab.parts.part import Dims


class Window(Mask, name="window"):
    """Causal with a short memory."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Mask.Config):
        """How many positions are seen."""

        size: Annotated[int, Field(ge=1)]

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.size = config.size

    @property
    def causal(self) -> bool:
        """True: no later position is ever allowed."""
        return True

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """i − size < j <= i."""
        return (key <= query) & (key > query - self.size)

    def expected_failed_checks(self) -> dict[str, str]:
        """A window of one is the mask `self`."""
        idle = {"gradient": "the one weight of a query is 1, whatever its score"}
        return idle if self.size == 1 else {}
