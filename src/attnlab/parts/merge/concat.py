"""Heads side by side, then the output map: the usual merge."""

from attnlab.parts.merge.base import Heads, Merge


class Concat(Merge, name="concat"):
    """Heads in their own order."""

    per_position = True

    def arrange(self, heads: Heads) -> Heads:
        """The heads as they are."""
        return heads
