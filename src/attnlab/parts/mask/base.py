"""Seam `mask`: which key a query may look at, from their positions alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from jaxtyping import Bool, Int
from torch import Tensor, nn

from attnlab.parts.part import Part, PositionIds

QueryPositions = Int[Tensor, "#batch query 1"]
KeyPositions = Int[Tensor, "#batch 1 key"]
Allowed = Bool[Tensor, "#batch query key"]


class Mask(Part):
    """mask(i, j): True where the query at position i may look at the key at position j."""

    triangular: ClassVar[bool] = False  # exactly "j <= i", which fused kernels know

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Mask"]):
        """Masks are joined before they are built: `Causal.Config() & Window.Config(size=8)`."""

        def __and__(self, other: "Mask.Config") -> "Mask.Config":
            return Mask.join("and", self, other)

        def __or__(self, other: "Mask.Config") -> "Mask.Config":
            return Mask.join("or", self, other)

    @staticmethod
    def join(word: str, *sides: "Mask.Config") -> "Mask.Config":
        """The Config of the variant `word` with these sides."""
        joined: Any = Mask.variants[word].Config
        return joined(sides=sides)

    @property
    def causal(self) -> bool:
        """Whether no query ever looks at a later position."""
        return False

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """Elementwise in the positions."""
        raise NotImplementedError

    def allowed(
        self, position_ids: PositionIds, key_padding_mask: Bool[Tensor, "batch key"] | None
    ) -> Bool[Tensor, "#batch 1 query key"]:
        """The mask of every query and key, without padding; one for all heads."""
        seen = self(position_ids.query[:, :, None], position_ids.key[:, None, :])
        if key_padding_mask is not None:
            seen = seen & ~key_padding_mask[:, None, :]
        return seen[:, None]


class Sides(nn.ModuleList):
    """The masks that & and | join."""

    def masks(self) -> Iterator[Mask]:
        """The sides, typed as masks."""
        return (cast("Mask", side) for side in self)
