"""j <= i: every position sees itself and what came before.

query 0   x . . .
query 1   x x . .
query 2   x x x .
query 3   x x x x
"""

from attnlab.parts.mask.base import Allowed, KeyPositions, Mask, QueryPositions


class Causal(Mask, name="causal"):
    """The mask of a language model."""

    triangular = causal = True

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """j <= i."""
        return key <= query
