"""Batches as a pure function of (seed, step): resuming needs only the number of the step.

    epoch 0: a permutation of the rows | epoch 1: another | epoch 2 …
    batch 0 | batch 1 | batch 2 | …    consecutive slices of `batch` rows of this endless sequence

so every batch is full, every row occurs once per epoch, and a batch may span two epochs.
Rows are gathered in numpy: torch's indexing wakes its threads, which takes milliseconds when the
cores are busy.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE, Ids
from attnlab.training.batch import Batches

T = TypeVar("T")
BATCHES_PER_BUCKET = 50  # how many batches `bucketed` sorts together


class Batch(NamedTuple):
    """Token ids, the target at each position, and the padding mask.

    A target is the id that follows, or IGNORE where nothing is scored. `key_padding_mask` is True
    at padding, and None if the batch has no padding.
    """

    ids: Int[Tensor, "batch pos"]
    targets: Int[Tensor, "batch pos"]
    key_padding_mask: Bool[Tensor, "batch pos"] | None

    def to(self, device: torch.device | str) -> "Batch":
        """Copy the batch to `device`."""
        mask = None if self.key_padding_mask is None else self.key_padding_mask.to(device)
        return Batch(self.ids.to(device), self.targets.to(device), mask)


class PackedBatches:
    """Batches of windows of `block` tokens from one stream; a window may span several texts.

        stream  . . w w w w w w w w w w w w .      block 4, three windows, shifted by two

    The tokens that fill no window are left out before the first and after the last window; the
    shift is drawn for every epoch. A stream shorter than a block is one shorter window.
    """

    def __init__(self, stream: Ids, block: int, batch: int, seed: Seed) -> None:
        self._stream = np.asarray(stream, dtype=np.int32)
        if len(self._stream) < 2:
            raise UsageError(f"a text of {len(self._stream)} tokens has nothing to predict")
        self.block = min(_check_positive("block", block), len(self._stream) - 1)
        self.rows, self._spare = divmod(len(self._stream) - 1, self.block)
        self._seed, self._sampler = seed, EpochSampler(self.rows, batch, self._starts)
        self._offsets = np.arange(self.block + 1)

    def batch(self, step: int) -> Batch:
        """Return batch number `step`; `rows` windows make an epoch."""
        windows = self._stream[self._sampler.batch(step)[:, None] + self._offsets]
        return Batch(_tensor(windows[:, :-1]), _tensor(windows[:, 1:]), None)

    def _starts(self, epoch: int) -> np.ndarray:
        rng = self._seed.child("epoch", epoch).numpy_generator()
        shift = rng.integers(0, self._spare + 1)
        return rng.permutation(self.rows) * self.block + shift


class SentenceBatches:
    """Batches of sentences, one per row: START … STOP, padded on the right to the longest row.

        ids      S a b c          targets  a b c /          key_padding_mask   . . . .
                 S d / /                   d / _ _                             . . # #

    A row of more than block + 1 tokens is truncated: `truncated_rows` rows lost `truncated_tokens`
    tokens, and `kept` holds the truncated rows, for baselines that must score the same tokens.
    by_length=True puts sentences of similar length in one batch, which needs less padding.
    """

    def __init__(
        self, rows: Sequence[Ids], block: int, batch: int, seed: Seed, *, by_length: bool = False
    ) -> None:
        self.kept, self.truncated_rows, self.truncated_tokens = truncate_rows(rows, block)
        if not self.kept:
            raise UsageError("no sentence has two tokens: nothing to predict")
        self.rows, self._ragged = len(self.kept), _RaggedRows(self.kept)
        lengths = self._ragged.lengths
        order = bucketed(lengths, batch, seed) if by_length else shuffled(self.rows, seed)
        self._sampler = EpochSampler(self.rows, batch, order)

    def batch(self, step: int) -> Batch:
        """Return batch number `step`; `rows` sentences make an epoch."""
        return self._ragged.batch(self._sampler.batch(step))


class MixedBatches:
    """Batch `step` has the rows of batch `step` of every source, in the given order.

    one   a b c □      other   d e        mixed   a b c □
                               f g                d e # #
                                                  f g # #
    """

    def __init__(self, *sources: Batches) -> None:
        if not sources:
            raise UsageError("nothing to mix")
        self.sources = sources

    def batch(self, step: int) -> Batch:
        """Return one batch of all rows; added positions are padding and not scored."""
        parts: list[Batch] = [source.batch(step) for source in self.sources]
        width = max(part.ids.shape[1] for part in parts)

        def stack(tensors: Iterable[Tensor], value: int | bool) -> Tensor:
            return torch.cat([pad(t, (0, width - t.shape[1]), value=value) for t in tensors])

        masks = (
            torch.zeros_like(part.ids, dtype=torch.bool)
            if part.key_padding_mask is None
            else part.key_padding_mask
            for part in parts
        )
        mask = stack(masks, True)
        return Batch(
            stack((part.ids for part in parts), 0),
            stack((part.targets for part in parts), IGNORE),
            mask if bool(mask.any()) else None,
        )


Order = Callable[[int], np.ndarray]  # the number of an epoch -> its items


def shuffled(rows: int, seed: Seed) -> Order:
    """Every row once per epoch, in another order each time."""
    return lambda epoch: seed.child("epoch", epoch).numpy_generator().permutation(rows)


def bucketed(lengths: np.ndarray, batch: int, seed: Seed) -> Order:
    """The same with rows of similar length in one batch."""
    order = shuffled(len(lengths), seed)
    return lambda epoch: _bucket_by_length(order(epoch), lengths, batch, epoch, seed)


def _bucket_by_length(
    order: np.ndarray, lengths: np.ndarray, batch: int, epoch: int, seed: Seed
) -> np.ndarray:
    """Reorder a shuffled epoch so that each batch of the endless sequence has similar lengths.

    Pools of BATCHES_PER_BUCKET batches are sorted by length, then the batches are shuffled. Rows
    in batches that span two epochs keep their positions.
    """
    rows = len(order)
    lead = -epoch * rows % batch  # the first rows complete the last batch of the epoch before
    full = max(0, rows - lead) // batch * batch
    middle, pool = order[lead : lead + full], BATCHES_PER_BUCKET * batch
    pools = [middle[i : i + pool] for i in range(0, full, pool)]
    by_length = [p[np.argsort(lengths[p], kind="stable")] for p in pools]
    batches = np.concatenate([middle[:0], *by_length]).reshape(-1, batch)
    rng = seed.child("batches", epoch).numpy_generator()
    shuffled = batches[rng.permutation(len(batches))].reshape(-1)
    return np.concatenate([order[:lead], shuffled, order[lead + full :]])


def sequential_batches(rows: Sequence[Ids], batch: int) -> Iterator[Batch]:
    """Yield every row once in the given order, for evaluation; the last batch may be smaller."""
    size = _check_positive("batch", batch)
    if not len(rows):
        return
    ragged = _RaggedRows([np.asarray(row, dtype=np.int32) for row in rows])
    for start in range(0, len(rows), size):
        yield ragged.batch(np.arange(start, min(start + size, len(rows))))


def truncate_rows(rows: Sequence[Ids], block: int) -> tuple[list[np.ndarray], int, int]:
    """Truncate rows to block + 1 tokens; return (rows, rows truncated, tokens lost).

    Rows of fewer than two tokens predict nothing and are left out.
    """
    longest = _check_positive("block", block) + 1
    usable = [np.asarray(row, dtype=np.int32) for row in rows if len(row) > 1]
    lost = [len(row) - longest for row in usable if len(row) > longest]
    return [row[:longest] for row in usable], len(lost), sum(lost)


def evenly_spaced(rows: Sequence[T], count: int) -> list[T]:
    """`count` of these rows, always the same ones; all of them where there are no more."""
    places = np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int)
    return [rows[place] for place in places]


class EpochSampler:
    """Slices of the endless sequence of epochs; `order(epoch)` returns the items of an epoch."""

    def __init__(self, rows: int, size: int, order: Order) -> None:
        self.rows, self.size = rows, _check_positive("batch", size)
        self._order = lru_cache(maxsize=2)(order)  # only saves work: the order is pure

    def batch(self, step: int) -> np.ndarray:
        """Return the `size` items of batch number `step`."""
        if step < 0:
            raise UsageError(f"step must be at least 0, got {step}")
        slices, position, missing = [], step * self.size, self.size
        while missing:
            epoch, start = divmod(position, self.rows)
            slices.append(self._order(epoch)[start : start + missing])
            position, missing = position + len(slices[-1]), missing - len(slices[-1])
        return slices[0] if len(slices) == 1 else np.concatenate(slices)


class _RaggedRows:
    """Rows of different length in one flat array; a batch is gathered without a Python loop."""

    def __init__(self, rows: Sequence[np.ndarray]) -> None:
        self.lengths = np.array([len(row) for row in rows])
        self._starts = np.cumsum(self.lengths) - self.lengths
        self._flat = np.concatenate(rows)
        self._offsets = np.arange(self.lengths.max())

    def batch(self, numbers: np.ndarray) -> Batch:
        """Return the rows of these numbers, padded with the last id of each row (STOP)."""
        lengths = self.lengths[numbers]
        offsets, last = self._offsets[: lengths.max()], (lengths - 1)[:, None]
        padded = self._flat[self._starts[numbers][:, None] + np.minimum(offsets, last)]
        mask = offsets[:-1] >= last
        targets = np.where(mask, IGNORE, padded[:, 1:])
        return Batch(_tensor(padded[:, :-1]), _tensor(targets), torch.from_numpy(mask))


def pad_rows(rows: Sequence[Ids], width: int, value: int) -> Tensor:
    """Stack rows of ids, each padded on its right to `width` with `value`."""
    padded = np.full((len(rows), width), value, dtype=np.int64)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return torch.from_numpy(padded)


def _tensor(ids: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64))


def _check_positive(name: str, value: int) -> int:
    if value < 1:
        raise UsageError(f"{name} must be at least 1, got {value}")
    return value
