"""The sentences of a text, in numbers, the same for every arm; prepared once a process."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from attnlab.tasks.batches import truncate_rows
from attnlab.tasks.corpus import Corpus, split_sentences
from attnlab.tasks.drama import extract_speeches
from attnlab.tasks.tokenizer import Tokenizer, train_tokenizer

Rows = list[np.ndarray]
DEV, TEST = 0.1, 0.1


@dataclass(frozen=True)
class Sentenced:
    """Word-level sentences <START> … <STOP>; the vocabulary is the training split's own."""

    tokenizer: Tokenizer
    train: Rows
    dev: Rows


@lru_cache(maxsize=2)
def sentenced(text: str, min_count: int, block: int) -> Sentenced:
    """Split by document, so that no play is in two splits; then sentences, then words."""
    if text == "shakespeare":
        splits = (
            Corpus.shakespeare().split(DEV, TEST).map(extract_speeches)
        )  # speeches, not directions
    else:
        splits = Corpus.read(Path(text)).split(DEV, TEST)
    train, dev = (
        [sentence for document in part for sentence in split_sentences(document)]
        for part in (splits.train, splits.dev)
    )
    tokenizer = train_tokenizer("word", train, min_count=min_count)
    rows = [truncate_rows(tokenizer.rows(part), block)[0] for part in (train, dev)]
    return Sentenced(tokenizer, rows[0], rows[1])


def spread_out(rows: Rows, count: int) -> Rows:
    """`count` rows evenly spaced, from every document, the same for every arm; short ones first.

    Rows of like length in a batch need little padding, and meet neighbours as in training.
    """
    places = np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int)
    return sorted((rows[i] for i in places), key=len)
