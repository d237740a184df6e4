"""a | b: a key is seen where some side allows it."""

from functools import reduce
from operator import or_

from attnlab.parts.mask.base import Allowed, Joined, KeyPositions, QueryPositions


class Either(Joined, name="or"):
    """Causal only when every side is."""

    @property
    def causal(self) -> bool:
        """Whether every side is."""
        return all(side.causal for side in self.masks())

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """Some side says yes."""
        return reduce(or_, (side(query, key) for side in self.masks()))
