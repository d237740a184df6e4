"""Span corruption: a span of a document is removed and must be written after the rest.

    document        K a f k a   w a s   b o r n   i n   P r a g u e .
    truncated to T  K a f k a   w a s   b o r n   i n   P r a g u          T drawn: 4 … limit
    row             prefix ⁇ suffix ⁇ span □ □ □                           block + 1 ids
    x, y            row without its last id, row without its first

T is uniform in 4 … min(n, limit), limit = ⌊7/8 block⌋; a document shorter than 4 is kept whole. The
length of the span is uniform in 1 … 2m−1, where m is ⌊T/4⌋ or ⌈T/4⌉, drawn so that the mean length
is exactly T/4 (for T ≥ 4; shorter texts have length 1); its start is uniform in 0 … T − length. A
span whose text occurs twice in the document is masked where it was drawn.

The vocabulary is that of a character tokenizer (tasks/tokenizer.py): <START> serves as the mark ⁇,
<STOP> as the padding □, and a character that the pretraining text does not have is <UNK>, in
training as in evaluation. A ⁇ in a text is an ordinary character. Padding is not scored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import torch

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE, Ids
from attnlab.tasks.batches import Batch, EpochSampler
from attnlab.tasks.tokenizer import Tokenizer, train_tokenizer

MIN_LENGTH = 4  # characters to which a document is truncated at least
Scored = Literal["all", "span"]


class Span(NamedTuple):
    """Keep the first `total` ids of a document and mask `length` of them from `start`."""

    total: int
    start: int
    length: int


@dataclass(frozen=True)
class Corruption:
    """How documents are truncated and masked; the defaults are those of the course.

    whole    probability that a document is truncated to the limit only; otherwise the end of a
             sentence, where the birthplace stands, is rarely seen
    closed   end the span with a third ⁇, as answers end in fine-tuning
    scored   "all": every id after the first; "span": only the ids of the span
    """

    block: int
    whole: float = 0.0
    closed: bool = False
    scored: Scored = "all"
    limit: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", 7 * self.block // 8)
        # T characters and two or three marks must fit into block + 1 positions
        if self.limit < MIN_LENGTH or self.limit + 2 + self.closed > self.block + 1:
            raise UsageError(f"block {self.block}: too short for span corruption")
        if not 0 <= self.whole <= 1:
            raise UsageError(f"whole: must be between 0 and 1, got {self.whole}")

    def draw(self, lengths: Ids, rng: np.random.Generator) -> np.ndarray:
        """Draw (total, start, length) for documents of these lengths; shape (documents, 3)."""
        longest = np.minimum(np.asarray(lengths, dtype=np.int64), self.limit)
        total = rng.integers(np.minimum(MIN_LENGTH, longest), longest + 1)
        total = np.where(rng.random(len(longest)) < self.whole, longest, total)
        mean = total // 4 + (rng.random(len(longest)) < (total % 4) / 4)
        length = rng.integers(1, 2 * np.maximum(mean, 1))
        start = rng.integers(0, total - length + 1)
        return np.stack([total, start, length], axis=1)

    def row(self, document: Ids, span: Span, vocabulary: Tokenizer) -> np.ndarray:
        """Return the ids of prefix ⁇ suffix ⁇ span, padded to block + 1."""
        total, start, length = span
        if not (
            0 < length <= total - start and start >= 0 and total <= min(len(document), self.limit)
        ):
            raise UsageError(f"{span} does not fit a document of {len(document)} characters")
        return self.rows(np.asarray(document)[None], np.array([span]), vocabulary)[0]

    def rows(self, texts: np.ndarray, spans: np.ndarray, vocabulary: Tokenizer) -> np.ndarray:
        """Return one row per text; of a text, no column after the total of its span is read."""
        total, start, length = np.split(spans, 3, axis=1)
        column, second = np.arange(self.block + 1), total - length + 1  # of the second ⁇
        source = np.where(column < start, column, column - 1 + length)
        source = np.where(column > second, start + column - second - 1, source)
        ids = np.take_along_axis(texts, source.clip(0, texts.shape[1] - 1), axis=1)
        end = total + 2
        marks = (column == start) | (column == second) | (column == end)
        ids = np.where(marks, vocabulary.start, ids)
        return np.where(column < end + self.closed, ids, vocabulary.pad)


def train_character_tokenizer(documents: Iterable[str], min_count: int = 1) -> Tokenizer:
    """Train a tokenizer on the characters of a text; those rarer than `min_count` are <UNK>."""
    return train_tokenizer("char", documents, min_count=min_count)


class CorruptedBatches:
    """Batches of corrupted documents as a pure function of (seed, step).

    Every epoch draws new spans. `trim` drops the columns in which every row is padding, which
    changes nothing for a causal model.
    """

    def __init__(
        self,
        documents: Sequence[str],
        vocabulary: Tokenizer,
        corruption: Corruption,
        batch: int,
        seed: Seed,
        *,
        trim: bool = False,
    ) -> None:
        texts = [row[1:-1] for row in vocabulary.rows(documents) if len(row) > 2]
        if not texts:
            raise UsageError("no document has a character: nothing to pretrain on")
        self._lengths = np.array([len(text) for text in texts])
        self._texts = np.full((len(texts), corruption.limit), vocabulary.pad, dtype=np.int64)
        for row, text in zip(self._texts, texts, strict=True):
            row[: len(text)] = text[: corruption.limit]
        self.vocabulary, self.corruption, self.trim = vocabulary, corruption, trim
        self.rows, self._seed = len(texts), seed
        self._sampler = EpochSampler(self.rows, batch, self._epoch)

    def batch(self, step: int) -> Batch:
        """Return batch number `step`; `rows` documents make an epoch."""
        drawn = self._sampler.batch(step)
        rows = self.corruption.rows(self._texts[drawn[:, 0]], drawn[:, 1:], self.vocabulary)
        padding = rows == self.vocabulary.pad
        if self.trim:
            width = max(2, int((~padding).sum(axis=1).max()))
            rows, padding = rows[:, :width], padding[:, :width]
        unscored = padding.copy()
        if self.corruption.scored == "span":
            second_mark = drawn[:, 1] - drawn[:, 3] + 1
            unscored |= np.arange(rows.shape[1]) <= second_mark[:, None]
        return Batch(
            torch.from_numpy(rows[:, :-1].copy()),
            torch.from_numpy(np.where(unscored, IGNORE, rows)[:, 1:].copy()),
            torch.from_numpy(padding[:, :-1].copy()),
        )

    def _epoch(self, epoch: int) -> np.ndarray:
        """Return rows (document, total, start, length) with every document once, shuffled."""
        rng = self._seed.child("epoch", epoch).numpy_generator()
        order = rng.permutation(self.rows)
        spans = self.corruption.draw(self._lengths[order], rng)
        return np.concatenate([order[:, None], spans], axis=1)
