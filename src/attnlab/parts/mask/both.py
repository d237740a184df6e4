"""a & b: a key is seen where every side allows it."""

from functools import reduce
from operator import and_

from attnlab.parts.mask.base import Allowed, Joined, KeyPositions, QueryPositions


class Both(Joined, name="and"):
    """Causal as soon as one side is."""

    @property
    def causal(self) -> bool:
        """Whether any side is."""
        return any(side.causal for side in self.masks())

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """Every side says yes."""
        return reduce(and_, (side(query, key) for side in self.masks()))
