"""Heads side by side, then the output map: the usual merge."""

from attnlab.parts.merge.base import Heads, Merge


class Concat(Merge, name="concat"):
    """Heads in their own order."""

    @property
    def per_position(self) -> bool:
        """Yes."""
        return True

    def arrange(self, heads: Heads) -> Heads:
        """Left alone."""
        return heads
