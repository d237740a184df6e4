"""Span corruption: a part of a document is taken out and must be written after the rest.

    document   K a f k a   w a s   b o r n   i n   P r a g u e .
    cut to T   K a f k a   w a s   b o r n   i n   P r a g u          T drawn: 4 … limit
    row        prefix ⁇ suffix ⁇ span □ □ □                           block + 1 ids
    x, y       row without its last id, row without its first

T is even in 4 … min(n, limit), limit = ⌊7/8 block⌋; a document shorter than 4 is kept whole. The
span's length is even in 1 … 2m−1, m = ⌊T/4⌋ or ⌈T/4⌉ drawn so that its mean is T/4 exactly (T ≥ 4;
1 for shorter texts); its start is even in 0 … T − length. Nothing is found again by searching for
its text: a span that stands twice in a document is masked where it was drawn.

The vocabulary is that of a character tokenizer (tasks/tokenizer.py): its <START> is the mark ⁇, its
<STOP> is the pad □, and a character that the pretraining text does not have is <UNK>, in training
as in evaluation. A ⁇ that stands in a text is an ordinary character. Pads are not scored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE, Ids
from attnlab.tasks.batches import Batch
from attnlab.tasks.batches import EpochSampler as Line  # pyright: ignore[reportPrivateUsage]
from attnlab.tasks.tokenizer import Tokenizer, train_tokenizer

MASK, PAD = "⁇", "□"  # how rows are shown
MIN_LENGTH = 4  # characters that are left of a document at least
Scored = Literal["all", "span"]


class Span(NamedTuple):
    """What a draw decides: the document's first `total` ids, of which `length` from `start`."""

    total: int
    start: int
    length: int


@dataclass(frozen=True)
class Corruption:
    """How documents are cut and masked; the defaults are the course's.

    `whole` is the share of draws in which a document is not shortened beyond the limit: the end of
    a sentence, where places stand, is seldom seen otherwise. `closed` ends the span with a third ⁇,
    as answers end in fine-tuning. `scored`: every id that follows another, or the span alone.
    """

    block: int
    whole: float = 0.0
    closed: bool = False
    scored: Scored = "all"
    limit: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", 7 * self.block // 8)
        # T characters, two or three marks, in block + 1 places
        if self.limit < MIN_LENGTH or self.limit + 2 + self.closed > self.block + 1:
            raise UsageError(f"block {self.block}: too short for span corruption")
        if not 0 <= self.whole <= 1:
            raise UsageError(f"whole: a share between 0 and 1, got {self.whole}")

    def draw(self, lengths: Ids, rng: np.random.Generator) -> np.ndarray:
        """(total, start, length) for documents of these lengths, one row each."""
        most = np.minimum(np.asarray(lengths, dtype=np.int64), self.limit)
        total = rng.integers(np.minimum(MIN_LENGTH, most), most + 1)
        total = np.where(rng.random(len(most)) < self.whole, most, total)
        middle = total // 4 + (rng.random(len(most)) < (total % 4) / 4)
        length = rng.integers(1, 2 * np.maximum(middle, 1))
        start = rng.integers(0, total - length + 1)
        return np.stack([total, start, length], axis=1)

    def row(self, document: Ids, span: Span, vocabulary: Tokenizer) -> np.ndarray:
        """prefix ⁇ suffix ⁇ span, padded to block + 1."""
        text, mark = np.asarray(document, dtype=np.int32), [vocabulary.start]
        total, start, length = span
        if not (0 < length <= total - start and start >= 0 and total <= min(len(text), self.limit)):
            raise UsageError(f"{span} does not fit a document of {len(text)} characters")
        end = mark if self.closed else []
        prefix, masked, suffix = np.split(text[:total], [start, start + length])
        written = np.concatenate([prefix, mark, suffix, mark, masked, end])
        row = np.full(self.block + 1, vocabulary.pad, dtype=np.int32)
        row[: len(written)] = written
        return row


def train_character_tokenizer(documents: Iterable[str], min_count: int = 1) -> Tokenizer:
    """The characters of the pretraining text; those it has fewer than `min_count` times: <UNK>."""
    return train_tokenizer("char", documents, min_count=min_count)


def show_row(row: Ids, vocabulary: Tokenizer) -> str:
    """A row as people read it, with ⁇ and □ for the marks."""
    marks = {vocabulary.start: MASK, vocabulary.pad: PAD}
    return "".join(marks.get(int(i)) or vocabulary.decode([int(i)]) for i in row)


class CorruptedBatches:
    """Batches of corrupted documents as a pure function of (seed, step), drawn anew every epoch.

    `trim` leaves out the columns in which every row is padded: no causal model can tell.
    """

    def __init__(
        self,
        documents: Sequence[str],
        vocabulary: Tokenizer,
        how: Corruption,
        batch: int,
        seed: Seed,
        *,
        trim: bool = False,
    ) -> None:
        self._texts = [row[1:-1] for row in vocabulary.rows(documents) if len(row) > 2]
        if not self._texts:
            raise UsageError("no document has a character: nothing to pretrain on")
        self._lengths = np.array([len(text) for text in self._texts])
        self.vocabulary, self.how, self.trim = vocabulary, how, trim
        self.rows, self._seed = len(self._texts), seed
        self._line = Line(self.rows, batch, self._epoch)

    def batch(self, step: int) -> Batch:
        """Batch number `step` of the endless line; `rows` documents make an epoch."""
        drawn = self._line.at(step)
        rows = np.stack(
            [self.how.row(self._texts[i], Span(*span), self.vocabulary) for i, *span in drawn]
        )
        hidden = rows == self.vocabulary.pad
        if self.trim:
            width = max(2, int((~hidden).sum(axis=1).max()))
            rows, hidden = rows[:, :width], hidden[:, :width]
        unscored = hidden.copy()
        if self.how.scored == "span":
            seconds = [np.flatnonzero(row == self.vocabulary.start)[1] for row in rows]
            unscored |= np.arange(rows.shape[1]) <= np.array(seconds)[:, None]
        ids = rows.astype(np.int64)
        return Batch(
            torch.from_numpy(ids[:, :-1].copy()),
            torch.from_numpy(np.where(unscored, IGNORE, ids)[:, 1:].copy()),
            torch.from_numpy(hidden[:, :-1].copy()),
        )

    def _epoch(self, epoch: int) -> np.ndarray:
        """(document, total, start, length), every document once, shuffled."""
        rng = self._seed.child("epoch", epoch).numpy_generator()
        order = rng.permutation(self.rows)
        return np.concatenate([order[:, None], self.how.draw(self._lengths[order], rng)], axis=1)
