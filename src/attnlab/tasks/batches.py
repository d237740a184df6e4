"""Batches as a pure function of (seed, step): resuming needs the number of the step, no more.

    epoch 0: a permutation of the rows | epoch 1: another | epoch 2 ...
    batch 0 | batch 1 | batch 2 |  ...  cut from this one endless line, `batch` rows each

so every batch is full, every row is met once an epoch, and a batch may straddle two epochs.
Gathered in numpy: torch's indexing wakes its threads, milliseconds when the cores are busy.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE, Ids

BATCHES_PER_BUCKET = 50  # batches that a bucketed order sorts by length together


class Batch(NamedTuple):
    """ids, the id that follows each (IGNORE: not scored), and which ids are padding.

    `key_padding_mask` is None where nothing can be padded.
    """

    ids: Int[Tensor, "batch pos"]
    targets: Int[Tensor, "batch pos"]
    key_padding_mask: Bool[Tensor, "batch pos"] | None

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on `device`."""
        key_padding_mask = (
            None if self.key_padding_mask is None else self.key_padding_mask.to(device)
        )
        return Batch(self.ids.to(device), self.targets.to(device), key_padding_mask)


class PackedBatches:
    """Windows of `block` tokens packed from one stream; a window does not know where texts end.

        stream  . . w w w w w w w w w w w w .      block 4, three windows, shifted by two

    Tokens that fill no window are left out before the first and after the last, in another
    proportion every epoch. A stream shorter than a block is one shorter window.
    """

    def __init__(self, stream: Ids, block: int, batch: int, seed: Seed) -> None:
        self._stream = np.asarray(stream, dtype=np.int32)
        if len(self._stream) < 2:
            raise UsageError(f"a text of {len(self._stream)} tokens has nothing to predict")
        self.block = min(_check_positive("block", block), len(self._stream) - 1)
        self.rows, self._rest = divmod(len(self._stream) - 1, self.block)
        self._seed, self._line = seed, EpochSampler(self.rows, batch, self._starts)
        self._within = np.arange(self.block + 1)

    def batch(self, step: int) -> Batch:
        """Batch number `step` of the endless line; `rows` windows make an epoch."""
        windows = self._stream[self._line.at(step)[:, None] + self._within]
        return Batch(_tensor(windows[:, :-1]), _tensor(windows[:, 1:]), None)

    def _starts(self, epoch: int) -> np.ndarray:
        rng = self._seed.child("epoch", epoch).numpy_generator()
        shift = rng.integers(0, self._rest + 1)
        return rng.permutation(self.rows) * self.block + shift


class SentenceBatches:
    """One sentence a row, START ... STOP, padded on the right to the longest of its batch.

        ids      S a b c          targets  a b c /          key_padding_mask   . . . .
                 S d / /                   d / _ _                   . . # #

    A row of more than block + 1 tokens is cut there: `cut_rows` rows lost `cut_tokens` tokens,
    and `kept` holds the rows as seen, for baselines that must score the same tokens.
    by_length=True puts sentences of like length in one batch: less padding, other neighbours.
    """

    def __init__(
        self, rows: Sequence[Ids], block: int, batch: int, seed: Seed, *, by_length: bool = False
    ) -> None:
        self.kept, self.cut_rows, self.cut_tokens = truncate_rows(rows, block)
        if not self.kept:
            raise UsageError("no sentence has two tokens: nothing to predict")
        self.rows, self._table, self._seed = len(self.kept), _RaggedRows(self.kept), seed
        self._line = EpochSampler(self.rows, batch, self._bucketed if by_length else self._shuffled)

    def batch(self, step: int) -> Batch:
        """Batch number `step` of the endless line; `rows` sentences make an epoch."""
        return self._table.batch(self._line.at(step))

    def _shuffled(self, epoch: int) -> np.ndarray:
        return self._seed.child("epoch", epoch).numpy_generator().permutation(self.rows)

    def _bucketed(self, epoch: int) -> np.ndarray:
        line = self._line
        return bucket_by_length(
            self._shuffled(epoch), self._table.lengths, line.batch, epoch, self._seed
        )


def bucket_by_length(
    order: np.ndarray, lengths: np.ndarray, batch: int, epoch: int, seed: Seed
) -> np.ndarray:
    """A shuffled epoch with rows of like length beside each other, cut where batches are cut."""
    rows = len(order)
    lead = -epoch * rows % batch  # the first rows complete the last epoch's batch
    full = max(0, rows - lead) // batch * batch
    middle, pool = order[lead : lead + full], BATCHES_PER_BUCKET * batch
    pools = [middle[i : i + pool] for i in range(0, full, pool)]
    ranked = [p[np.argsort(lengths[p], kind="stable")] for p in pools]
    batches = np.concatenate([middle[:0], *ranked]).reshape(-1, batch)
    rng = seed.child("batches", epoch).numpy_generator()
    mixed = batches[rng.permutation(len(batches))].reshape(-1)
    return np.concatenate([order[:lead], mixed, order[lead + full :]])


def sequential_batches(rows: Sequence[Ids], batch: int) -> Iterator[Batch]:
    """Every row once, in the order given, the last batch as small as it comes: to evaluate on."""
    size = _check_positive("batch", batch)
    if not len(rows):
        return
    table = _RaggedRows([np.asarray(row, dtype=np.int32) for row in rows])
    for start in range(0, len(rows), size):
        yield table.batch(np.arange(start, min(start + size, len(rows))))


def truncate_rows(rows: Sequence[Ids], block: int) -> tuple[list[np.ndarray], int, int]:
    """Rows of at most block + 1 tokens, how many were cut, and how many tokens that cost.

    Rows of fewer than two tokens predict nothing and are left out.
    """
    longest = _check_positive("block", block) + 1
    whole = [np.asarray(row, dtype=np.int32) for row in rows if len(row) > 1]
    over = [len(row) - longest for row in whole if len(row) > longest]
    return [row[:longest] for row in whole], len(over), sum(over)


class EpochSampler:
    """The endless line: the permutations of all epochs, one after the other."""

    def __init__(self, rows: int, batch: int, order: Callable[[int], np.ndarray]) -> None:
        self.rows, self.batch = rows, _check_positive("batch", batch)
        self._order = lru_cache(maxsize=2)(order)  # only saves work: the order is pure

    def at(self, step: int) -> np.ndarray:
        """The items of batch `step`."""
        if step < 0:
            raise UsageError(f"step must be at least 0, got {step}")
        taken, place, wanted = [], step * self.batch, self.batch
        while wanted:
            epoch, start = divmod(place, self.rows)
            taken.append(self._order(epoch)[start : start + wanted])
            place, wanted = place + len(taken[-1]), wanted - len(taken[-1])
        return taken[0] if len(taken) == 1 else np.concatenate(taken)


class _RaggedRows:
    """Rows in one flat array; a batch is gathered without a loop over tokens."""

    def __init__(self, rows: Sequence[np.ndarray]) -> None:
        self.lengths = np.array([len(row) for row in rows])
        self._starts = np.cumsum(self.lengths) - self.lengths
        self._flat = np.concatenate(rows)
        self._within = np.arange(self.lengths.max())

    def batch(self, chosen: np.ndarray) -> Batch:
        lengths = self.lengths[chosen]
        within, last = self._within[: lengths.max()], (lengths - 1)[:, None]
        # padded with the row's last id, STOP
        padded = self._flat[self._starts[chosen][:, None] + np.minimum(within, last)]
        key_padding_mask = within[:-1] >= last
        targets = np.where(key_padding_mask, IGNORE, padded[:, 1:])
        return Batch(_tensor(padded[:, :-1]), _tensor(targets), torch.from_numpy(key_padding_mask))


def _tensor(ids: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(ids, dtype=np.int64))


def _check_positive(name: str, value: int) -> int:
    if value < 1:
        raise UsageError(f"{name} must be at least 1, got {value}")
    return value
