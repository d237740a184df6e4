"""Head h takes the place of head h + by (round the end), then the output map.

This permutes columns of the output map and nothing else: trained from a permuted start, the model
is the same function. Any difference it shows is noise of the seed.
"""

from dataclasses import dataclass

import torch

from attnlab.parts.merge.base import Heads, Merge
from attnlab.parts.part import Dims


class Shift(Merge, name="shift"):
    """A fixed rotation of the heads."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Merge.Config):
        """By how many heads."""

        by: int = 1

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.by = config.by

    @property
    def per_position(self) -> bool:
        """True: heads of one position stay with it."""
        return True

    def arrange(self, heads: Heads) -> Heads:
        """Rolled along the heads."""
        return heads.roll(self.by, dims=1)
