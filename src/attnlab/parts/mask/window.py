"""i − size < j <= i: the last `size` positions, oneself included (sliding window).

size 2   query 0   x . . .
         query 1   x x . .
         query 2   . x x .
         query 3   . . x x
"""

from attnlab.parts.mask.base import Allowed, KeyPositions, Local, QueryPositions


class Window(Local, name="window"):
    """The window moves with the query."""

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """i − size < j <= i."""
        return (key <= query) & (key > query - self.config.size)
