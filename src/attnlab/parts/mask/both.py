"""a & b: a key is seen where every side allows it."""

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Annotated

import torch
from pydantic import Field

from attnlab.parts.mask.base import Allowed, KeyPositions, Mask, QueryPositions, Sides
from attnlab.parts.part import Dims


class Both(Mask, name="and"):
    """Causal as soon as one side is."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Mask.Config):
        """What `&` between mask Configs makes."""

        sides: Annotated[tuple[Mask.Config, ...], Field(min_length=2)]

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.sides = Sides(side.build(dims, generator) for side in config.sides)

    @property
    def causal(self) -> bool:
        """Whether any side is."""
        return any(side.causal for side in self.sides.masks())

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """Every side says yes."""
        return reduce(and_, (side(query, key) for side in self.sides.masks()))
