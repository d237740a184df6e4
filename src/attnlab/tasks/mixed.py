"""Batches of several sources side by side: questions among biographies, say.

one   a b c □      other   d e        mixed   a b c □
                           f g                d e # #
                                              f g # #
"""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from attnlab.core.errors import UsageError
from attnlab.core.tokens import IGNORE
from attnlab.tasks.batches import Batch


class BatchSource(Protocol):
    """Batches as a function of the step."""

    def batch(self, step: int) -> Batch:
        """Batch number `step`."""
        ...


class MixedBatches:
    """Step by step the rows of every source, in the order given."""

    def __init__(self, *sources: BatchSource) -> None:
        if not sources:
            raise UsageError("nothing to mix")
        self.sources = sources

    def batch(self, step: int) -> Batch:
        """One batch of all rows, padded on the right to the longest."""
        return concatenate_batches(source.batch(step) for source in self.sources)


def concatenate_batches(batches: Iterable[Batch]) -> Batch:
    """The rows of all; what is added is key_padding_mask and not scored."""
    parts = list(batches)
    width = max(part.ids.shape[1] for part in parts)

    def wide(tensor: Tensor, fill: int | bool) -> Tensor:
        return functional.pad(tensor, (0, width - tensor.shape[1]), value=fill)

    key_padding_mask = torch.cat(
        [
            wide(
                torch.zeros_like(p.ids, dtype=torch.bool)
                if p.key_padding_mask is None
                else p.key_padding_mask,
                True,
            )
            for p in parts
        ]
    )
    return Batch(
        torch.cat([wide(part.ids, 0) for part in parts]),
        torch.cat([wide(part.targets, IGNORE) for part in parts]),
        key_padding_mask if bool(key_padding_mask.any()) else None,
    )
