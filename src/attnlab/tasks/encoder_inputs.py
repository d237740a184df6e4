"""Examples as an encoder reads them: by its tokenizer's own way with one text or a pair.

    BERT      [CLS] a [SEP] b [SEP]            segments  0 0 0 1 1
    RoBERTa   <s> a </s> </s> b </s>           no segments

A text longer than the encoder's context is cut at its end; of a pair the longer text first, token
by token. What was cut is counted, and shown as it stood in the text. A batch is as wide as its
longest row; rows of like length go together, so that little of it is padding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.models.encoder import Texts
from attnlab.models.hub import quiet
from attnlab.tasks.batches import EpochSampler as Line  # pyright: ignore[reportPrivateUsage]
from attnlab.tasks.batches import bucket_by_length
from attnlab.tasks.labelled import Example

MAX_SHOWN = 3  # rows whose lost text is kept to be shown
MIN_TOKENS = 8  # tokens that hold markers and a word of each text


@dataclass(frozen=True)
class TruncatedRow:
    """What one row lost: its number, how many tokens, and the text that nobody reads."""

    row: int
    tokens: int
    text: str


@dataclass(frozen=True)
class EncodedExamples:
    """Rows of ids with their segments and classes; what was cut to make them fit."""

    ids: tuple[np.ndarray, ...]
    kinds: tuple[np.ndarray, ...] | None
    labels: np.ndarray
    pad: int
    longest: int  # tokens a row may have
    lost: np.ndarray  # tokens that each row lost
    shown: tuple[TruncatedRow, ...] = ()  # the first of them

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row."""
        return np.array([len(row) for row in self.ids])

    @property
    def cut_rows(self) -> int:
        """Rows that lost something."""
        return int(np.count_nonzero(self.lost))

    @property
    def cut_tokens(self) -> int:
        """Tokens that nobody reads."""
        return int(self.lost.sum())

    @property
    def tokens(self) -> int:
        """Of all texts before anything was cut."""
        return int(self.lengths.sum()) + self.cut_tokens

    def report(self) -> str:
        """One sentence about what was cut."""
        if not self.cut_rows:
            return f"all {len(self):,} texts fit into {self.longest} tokens"
        share = self.cut_tokens / self.tokens
        return (
            f"{self.cut_rows:,} of {len(self):,} texts were cut to {self.longest} tokens and "
            f"lost {self.cut_tokens:,} tokens, {share:.1%} of all"
        )

    def batch(self, chosen: Sequence[int] | np.ndarray, width: int = 0) -> Texts:
        """These rows, padded on the right to the longest of them, or to `width`."""
        picked = [self.ids[i] for i in chosen]
        wide = max(width, max(map(len, picked)))
        lengths = np.array([len(row) for row in picked])
        hidden = np.arange(wide) >= lengths[:, None]
        kinds = None
        if self.kinds is not None:
            kinds = _pad_rows([self.kinds[i] for i in chosen], wide, 0)
        return Texts(
            _pad_rows(picked, wide, self.pad),
            torch.from_numpy(hidden),
            kinds,
            torch.from_numpy(self.labels[np.asarray(chosen)]),
        )

    def in_order(self, batch: int) -> Iterator[tuple[np.ndarray, Texts]]:
        """Every row once, shortest first, with the numbers of the rows: to evaluate on."""
        order = np.argsort(self.lengths, kind="stable")
        for start in range(0, len(order), batch):
            chosen = order[start : start + batch]
            yield chosen, self.batch(chosen)


class ShuffledBatches:
    """Batches as a pure function of (seed, step); every row once an epoch.

    fixed=True pads every batch to the longest row a text may have: what bucketing is measured
    against.
    """

    def __init__(
        self, rows: EncodedExamples, batch: int, seed: Seed, *, fixed: bool = False
    ) -> None:
        self.rows, self._seed, self._lengths = rows, seed, rows.lengths
        self._width = rows.longest if fixed else 0
        self._line = Line(len(rows), batch, self._shuffled if fixed else self._bucketed)

    def batch(self, step: int) -> Texts:
        """Batch number `step` of the endless line of epochs."""
        return self.rows.batch(self._line.at(step), self._width)

    def _shuffled(self, epoch: int) -> np.ndarray:
        return self._seed.child("epoch", epoch).numpy_generator().permutation(len(self.rows))

    def _bucketed(self, epoch: int) -> np.ndarray:
        return bucket_by_length(
            self._shuffled(epoch), self._lengths, self._line.batch, epoch, self._seed
        )


def encode_examples(tokenizer: Any, examples: Sequence[Example], longest: int) -> EncodedExamples:
    """The examples in at most `longest` tokens each, markers included."""
    if not examples:
        raise UsageError("no example: nothing to encode")
    if longest < MIN_TOKENS:
        raise UsageError(f"{longest} tokens hold no text; at least {FEWEST} are needed")
    pair = examples[0].second is not None
    if any((e.second is not None) != pair for e in examples):
        raise UsageError("some examples are pairs and some are not")
    texts = [e.text for e in examples]
    seconds = [e.second or "" for e in examples] if pair else None
    with quiet():  # it would warn of every text that is cut below
        whole = tokenizer(texts, seconds)
        long = [i for i, ids in enumerate(whole["input_ids"]) if len(ids) > longest]
        short = _truncate(tokenizer, [examples[i] for i in long], longest) if long else None
    ids, kinds = list(whole["input_ids"]), whole.get("token_type_ids")
    lost, shown = np.zeros(len(ids), dtype=np.int64), []
    for place, row in enumerate(long):
        assert short is not None
        lost[row] = len(ids[row]) - len(short["input_ids"][place])
        if len(shown) < MAX_SHOWN:
            text = _truncated_text(examples[row], whole[row], short[place])
            shown.append(TruncatedRow(row, int(lost[row]), text))
        ids[row] = short["input_ids"][place]
        if kinds is not None:
            kinds[row] = short["token_type_ids"][place]
    return EncodedExamples(
        tuple(np.asarray(row, dtype=np.int64) for row in ids),
        None if kinds is None else tuple(np.asarray(row, dtype=np.int64) for row in kinds),
        np.array([e.label for e in examples], dtype=np.int64),
        int(tokenizer.pad_token_id or 0),
        longest,
        lost,
        tuple(shown),
    )


def _truncate(tokenizer: Any, examples: Sequence[Example], longest: int) -> Any:
    texts = [e.text for e in examples]
    seconds = [e.second or "" for e in examples] if examples[0].second is not None else None
    return tokenizer(texts, seconds, truncation="longest_first", max_length=longest)


def _truncated_text(example: Example, whole: Any, short: Any) -> str:
    """The end of each text that no token of the cut row covers, as it was written."""
    found = []
    for number, text in enumerate(example.texts):
        kept = [
            span[1]
            for span, of in zip(short.offsets, short.sequence_ids, strict=True)
            if of == number
        ]
        had = sum(of == number for of in whole.sequence_ids)
        if len(kept) < had:
            found.append(text[max(kept, default=0) :].strip())
    return " … ".join(found)


def _pad_rows(rows: Sequence[np.ndarray], width: int, value: int) -> Tensor:
    table = np.full((len(rows), width), value, dtype=np.int64)
    for place, row in enumerate(rows):
        table[place, : len(row)] = row
    return torch.from_numpy(table)
