"""No positions: attention sees a bag of what came before."""

from attnlab.parts.position.base import Position


class NoPosition(Position, name="none"):
    """The identity in all three methods."""
