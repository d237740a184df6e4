"""a | b: a key is seen where some side allows it."""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated

import torch
from pydantic import Field

from attnlab.parts.mask.base import Allowed, KeyPositions, Mask, QueryPositions, Sides
from attnlab.parts.part import Dims


class Either(Mask, name="or"):
    """Causal only when every side is."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Mask.Config):
        """What `|` between mask Configs makes."""

        sides: Annotated[tuple[Mask.Config, ...], Field(min_length=2)]

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.sides = Sides(side.build(dims, generator) for side in config.sides)

    @property
    def causal(self) -> bool:
        """Whether every side is."""
        return all(side.causal for side in self.sides.masks())

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """Some side says yes."""
        return reduce(or_, (side(query, key) for side in self.sides.masks()))
