"""Seam `mask`: which key a query may look at, from their positions alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Int
from pydantic import Field
from torch import Tensor, nn

from attnlab.parts.part import Count, Dims, Padding, Part, PositionIds

QueryPositions = Int[Tensor, "#batch query 1"]
KeyPositions = Int[Tensor, "#batch 1 key"]
Allowed = Bool[Tensor, "#batch query key"]


class Mask(Part):
    """mask(i, j): True where the query at position i may look at the key at position j."""

    triangular: ClassVar[bool] = False  # exactly "j <= i", which fused kernels know
    causal: bool = False  # whether no query ever looks at a later position

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Mask"]):
        """Masks are joined before they are built: `Causal.Config() & Window.Config(size=8)`."""

        def __and__(self, other: "Mask.Config") -> "Mask.Config":
            return self._join("and", other)

        def __or__(self, other: "Mask.Config") -> "Mask.Config":
            return self._join("or", other)

        def _join(self, word: str, other: "Mask.Config") -> "Mask.Config":
            joined: Any = Mask.variants[word].Config
            return joined(sides=(self, other))

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """Elementwise in the positions."""
        raise NotImplementedError

    def allowed(
        self, position_ids: PositionIds, key_padding_mask: Padding
    ) -> Bool[Tensor, "#batch 1 query key"]:
        """The mask of every query and key, without padding; one for all heads."""
        seen = self(position_ids.query[:, :, None], position_ids.key[:, None, :])
        if key_padding_mask is not None:
            seen = seen & ~key_padding_mask[:, None, :]
        return seen[:, None]


class Joined(Mask, abstract=True):
    """A mask made of other masks: what they allow is joined, and whether they are causal."""

    join: ClassVar[Callable[[Tensor, Tensor], Tensor]]
    causal_if: ClassVar[Callable[[Iterable[bool]], bool]]

    @dataclass(frozen=True, kw_only=True)
    class Config(Mask.Config):
        """What `&` or `|` between mask Configs makes."""

        sides: Annotated[tuple[Mask.Config, ...], Field(min_length=2)]

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        sides = [side.build(dims, generator) for side in config.sides]
        self.sides = nn.ModuleList(sides)
        self.causal = type(self).causal_if(side.causal for side in sides)

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """What the sides say, joined."""
        return reduce(type(self).join, (side(query, key) for side in self.sides))


class Local(Mask, abstract=True):
    """A causal mask with a short memory of `size` positions."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Mask.Config):
        """How many positions a query sees at most."""

        size: Count

    causal = True
    config: Config

    def expected_failed_checks(self) -> dict[str, str]:
        """With a memory of one it is the mask `self`."""
        idle = {"gradient": "the one weight of a query is 1, whatever its score"}
        return idle if self.config.size == 1 else {}
