"""The sentences of a text as token ids: the same for every arm, prepared once per process."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from attnlab.tasks.batches import evenly_spaced, truncate_rows
from attnlab.tasks.corpus import Corpus, split_sentences
from attnlab.tasks.drama import extract_speeches
from attnlab.tasks.tokenizer import Tokenizer, train_tokenizer

Rows = list[np.ndarray]
DEV, TEST = 0.1, 0.1


@dataclass(frozen=True)
class Sentences:
    """Sentences of words, <START> … <STOP>; the vocabulary comes from the training split."""

    tokenizer: Tokenizer
    train: Rows
    dev: Rows
    test: Rows  # scored once, after training; empty if the text is too short for a third split


@lru_cache(maxsize=2)
def load_sentences(text: str, min_count: int, block: int) -> Sentences:
    """Split by document, so that no play is in two splits; then into sentences and words."""
    if text == "shakespeare":  # what is spoken, without stage directions
        splits = Corpus.shakespeare().split(DEV, TEST).map(extract_speeches)
    else:
        splits = Corpus.read(Path(text)).split(DEV, TEST)
    train, dev, test = (
        [sentence for document in part for sentence in split_sentences(document)]
        for part in splits.parts
    )
    tokenizer = train_tokenizer("word", train, min_count=min_count)
    rows = [truncate_rows(tokenizer.rows(part), block)[0] for part in (train, dev, test)]
    return Sentences(tokenizer, *rows)


def sample_rows(rows: Rows, count: int) -> Rows:
    """`count` evenly spaced rows, the same for every arm, sorted by length.

    Rows of similar length in a batch need little padding, as in training.
    """
    return sorted(evenly_spaced(rows, count), key=len)
