"""Batches that stack the rows of several sources, for example questions and biographies.

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
    """Anything that gives a batch for every step."""

    def batch(self, step: int) -> Batch:
        """Return batch number `step`, counted from 0."""
        ...


class MixedBatches:
    """Batch `step` has the rows of batch `step` of every source, in the given order."""

    def __init__(self, *sources: BatchSource) -> None:
        if not sources:
            raise UsageError("nothing to mix")
        self.sources = sources

    def batch(self, step: int) -> Batch:
        """Return one batch of all rows, padded on the right to the longest."""
        return concatenate_batches(source.batch(step) for source in self.sources)


def concatenate_batches(batches: Iterable[Batch]) -> Batch:
    """Stack the rows of all batches; added positions are padding and not scored."""
    parts = list(batches)
    width = max(part.ids.shape[1] for part in parts)

    def pad(tensor: Tensor, value: int | bool) -> Tensor:
        return functional.pad(tensor, (0, width - tensor.shape[1]), value=value)

    mask = torch.cat([pad(_padding_mask(part), True) for part in parts])
    return Batch(
        torch.cat([pad(part.ids, 0) for part in parts]),
        torch.cat([pad(part.targets, IGNORE) for part in parts]),
        mask if bool(mask.any()) else None,
    )


def _padding_mask(batch: Batch) -> Tensor:
    if batch.key_padding_mask is None:
        return torch.zeros_like(batch.ids, dtype=torch.bool)
    return batch.key_padding_mask
