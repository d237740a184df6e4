"""Labelled examples as inputs of an encoder, in its tokenizer's format for one text or a pair.

    BERT      [CLS] a [SEP] b [SEP]            token types  0 0 0 1 1
    RoBERTa   <s> a </s> </s> b </s>           no token types

A text longer than the encoder's context is truncated at its end; of a pair, the longer text loses
tokens first. The lost tokens are counted, and some lost texts are kept as examples. A batch is as
wide as its longest row; rows of similar length go together, so that it has little padding.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.models.encoder import Texts
from attnlab.models.hub import quiet
from attnlab.tasks.batches import EpochSampler, bucketed, pad_rows, shuffled
from attnlab.tasks.labelled import Example

MAX_EXAMPLES = 3  # truncated rows whose lost text is kept
MIN_TOKENS = 8  # enough for the special tokens and a word of each text


@dataclass(frozen=True)
class TruncatedRow:
    """What one row lost: its number, the number of tokens, and the text they stand for."""

    row: int
    tokens: int
    text: str


@dataclass(frozen=True)
class EncodedExamples:
    """Token ids, token types and labels of every row, and what was truncated."""

    ids: tuple[np.ndarray, ...]
    token_types: tuple[np.ndarray, ...] | None
    labels: np.ndarray
    pad: int  # the id of padding
    max_tokens: int  # tokens a row may have
    lost_tokens: np.ndarray  # tokens that each row lost
    examples: tuple[TruncatedRow, ...] = ()  # the first truncated rows

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row."""
        return np.array([len(row) for row in self.ids])

    @property
    def truncated_rows(self) -> int:
        """Number of rows that lost tokens."""
        return int(np.count_nonzero(self.lost_tokens))

    @property
    def truncated_tokens(self) -> int:
        """Number of tokens that all rows together lost."""
        return int(self.lost_tokens.sum())

    @property
    def tokens(self) -> int:
        """Number of tokens of all rows before truncation."""
        return int(self.lengths.sum()) + self.truncated_tokens

    def report(self) -> str:
        """Describe the truncation in one sentence."""
        if not self.truncated_rows:
            return f"all {len(self):,} texts fit into {self.max_tokens} tokens"
        share = self.truncated_tokens / self.tokens
        return (
            f"{self.truncated_rows:,} of {len(self):,} texts were cut to {self.max_tokens} tokens "
            f"and lost {self.truncated_tokens:,} tokens, {share:.1%} of all"
        )

    def batch(self, numbers: Sequence[int] | np.ndarray, width: int = 0) -> Texts:
        """Return the rows of these numbers, padded on the right to the longest, or to `width`."""
        rows = [self.ids[i] for i in numbers]
        lengths = np.array([len(row) for row in rows])
        width = max(width, int(lengths.max()))
        token_types = None
        if self.token_types is not None:
            token_types = pad_rows([self.token_types[i] for i in numbers], width, 0)
        return Texts(
            pad_rows(rows, width, self.pad),
            torch.from_numpy(np.arange(width) >= lengths[:, None]),
            token_types,
            torch.from_numpy(self.labels[np.asarray(numbers)]),
        )

    def batches_by_length(self, batch: int, count: int = 0) -> Iterator[tuple[np.ndarray, Texts]]:
        """Yield (row numbers, batch) with every row once, shortest first, for evaluation.

        With a count, only that many rows, evenly spaced in the data.
        """
        order = np.argsort(self.lengths, kind="stable")
        if 0 < count < len(order):
            chosen = np.linspace(0, len(order) - 1, count).astype(int)
            order = order[np.isin(order, chosen)]
        for start in range(0, len(order), batch):
            numbers = order[start : start + batch]
            yield numbers, self.batch(numbers)


class ShuffledBatches:
    """Training batches as a pure function of (seed, step); every row once per epoch.

    Rows of similar length share a batch. fixed=True instead pads every batch to `max_tokens`, as a
    baseline to compare that with.
    """

    def __init__(
        self, rows: EncodedExamples, batch: int, seed: Seed, *, fixed: bool = False
    ) -> None:
        self.rows, self._width = rows, rows.max_tokens if fixed else 0
        order = shuffled(len(rows), seed) if fixed else bucketed(rows.lengths, batch, seed)
        self._sampler = EpochSampler(len(rows), batch, order)

    def batch(self, step: int) -> Texts:
        """Return batch number `step` of the endless sequence of epochs."""
        return self.rows.batch(self._sampler.batch(step), self._width)


def encode_examples(
    tokenizer: Any, examples: Sequence[Example], max_tokens: int
) -> EncodedExamples:
    """Tokenize examples into at most `max_tokens` tokens each, special tokens included."""
    if not examples:
        raise UsageError("no example: nothing to encode")
    if max_tokens < MIN_TOKENS:
        raise UsageError(f"{max_tokens} tokens hold no text; at least {MIN_TOKENS} are needed")
    pair = examples[0].second is not None
    if any((e.second is not None) != pair for e in examples):
        raise UsageError("some examples are pairs and some are not")
    with quiet():  # it would warn of every text that is truncated below
        full = _tokenize(tokenizer, examples)
        long = [i for i, ids in enumerate(full["input_ids"]) if len(ids) > max_tokens]
        limits = {"truncation": "longest_first", "max_length": max_tokens}
        short = _tokenize(tokenizer, [examples[i] for i in long], **limits) if long else {}
    ids, token_types = list(full["input_ids"]), full.get("token_type_ids")
    lost, truncated = np.zeros(len(ids), dtype=np.int64), []
    for index, row in enumerate(long):
        lost[row] = len(ids[row]) - len(short["input_ids"][index])
        if len(truncated) < MAX_EXAMPLES:
            text = _lost_text(examples[row], full[row], short[index])
            truncated.append(TruncatedRow(row, int(lost[row]), text))
        ids[row] = short["input_ids"][index]
        if token_types is not None:
            token_types[row] = short["token_type_ids"][index]
    return EncodedExamples(
        _arrays(ids),
        None if token_types is None else _arrays(token_types),
        np.array([e.label for e in examples], dtype=np.int64),
        int(tokenizer.pad_token_id or 0),
        max_tokens,
        lost,
        tuple(truncated),
    )


def _tokenize(tokenizer: Any, examples: Sequence[Example], **options: Any) -> Any:
    texts = [e.text for e in examples]
    seconds = [e.second or "" for e in examples] if examples[0].second is not None else None
    return tokenizer(texts, seconds, **options)


def _lost_text(example: Example, full: Any, short: Any) -> str:
    """Return the end of each text that no token of the truncated row covers, as written."""
    endings = []
    for number, text in enumerate(example.texts):
        ends = [
            span[1]
            for span, text_number in zip(short.offsets, short.sequence_ids, strict=True)
            if text_number == number
        ]
        if len(ends) < sum(text_number == number for text_number in full.sequence_ids):
            endings.append(text[max(ends, default=0) :].strip())
    return " … ".join(endings)


def _arrays(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(row, dtype=np.int64) for row in rows)
