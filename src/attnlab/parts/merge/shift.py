"""Head h moves to position h + by (round the end), then the output map.

This permutes columns of the output map and nothing else: trained from a permuted start, the model
is the same function. Any difference it shows is noise of the seed.
"""

from dataclasses import dataclass

from attnlab.parts.merge.base import Heads, Merge


class Shift(Merge, name="shift"):
    """A fixed rotation of the heads."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Merge.Config):
        """By how many heads."""

        by: int = 1

    config: Config
    per_position = True

    def arrange(self, heads: Heads) -> Heads:
        """Rolled along the heads."""
        return heads.roll(self.config.by, dims=1)
