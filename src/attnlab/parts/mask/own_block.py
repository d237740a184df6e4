"""j <= i and ⌊j/size⌋ = ⌊i/size⌋: what came before, inside one's own block of `size` positions.

size 2   query 0   x . . .
         query 1   x x . .
         query 2   . . x .
         query 3   . . x x
"""

from attnlab.parts.mask.base import Allowed, KeyPositions, Local, QueryPositions


class OwnBlock(Local, name="own-block"):
    """Causal inside each block, nothing across; the first block begins at position 0."""

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """j <= i, and no border between them."""
        size = self.config.size
        return (key <= query) & (key // size == query // size)
