"""ROUGE, the overlap of a text with a reference (Lin 2004), by the package `rouge-score`.

    ROUGE-n     P = shared n-grams / n-grams of the prediction, R = shared / of the reference
    ROUGE-L     the same with the longest common subsequence of the two whole texts
    ROUGE-Lsum  the same sentence by sentence: of each reference sentence, what any sentence of
                the prediction has in order; a token counts once
    F = 2PR / (P + R)

Three choices change the scores, so every score carries them (`Variant`):

    stemmer    Porter's, or none
    tokenizer  "ascii", the package's own: everything but a-z and 0-9 is a space, so "café" is "caf"
               and a Greek text is empty; "unicode": see measure/words.py, the same on ASCII text
    splitter   "newline", the package's own: a sentence is a line, so in texts without line ends
               Lsum is L; "sentence": by measure/sentences.py. L never depends on it

A prediction without a token scores 0. A reference without one is an error: nothing could match.
"""

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.core.extras import require
from attnlab.core.seeds import Seed
from attnlab.measure.intervals import MIN_BOOTSTRAP_ITEMS, Estimate, mean_over_items
from attnlab.measure.sentences import sentences
from attnlab.measure.words import has_non_ascii_letters, words

KINDS = ("rouge1", "rouge2", "rougeL", "rougeLsum")
MEASURES = ("precision", "recall", "f")
TOKENIZERS, SPLITTERS = ("ascii", "unicode"), ("newline", "sentence")
Measure = Literal["precision", "recall", "f"]


@dataclass(frozen=True)
class Variant:
    """The choices behind a score; scores are comparable only if their variants are equal."""

    stemmer: bool = True
    tokenizer: str = "ascii"
    splitter: str = "newline"

    def __post_init__(self) -> None:
        for what, given, known in (
            ("tokenizer", self.tokenizer, TOKENIZERS),
            ("splitter", self.splitter, SPLITTERS),
        ):
            if given not in known:
                raise UsageError(f"unknown {what} {given!r}: {suggest(given, known)}")

    def as_json(self) -> dict[str, str]:
        """{"package", "stemmer", "tokenizer", "splitter"}."""
        return {
            "package": f"rouge-score {importlib.metadata.version('rouge-score')}",
            "stemmer": "porter" if self.stemmer else "none",
            "tokenizer": self.tokenizer,
            "splitter": self.splitter,
        }

    def __str__(self) -> str:
        said = self.as_json()
        return (
            f"{said['package']}, stemmer {said['stemmer']}, tokenizer {self.tokenizer}, "
            f"Lsum by {self.splitter}"
        )


class Score(NamedTuple):
    """Precision, recall and their harmonic mean."""

    precision: float
    recall: float
    f: float


class Scorer:
    """score(prediction, reference) -> a Score for each of rouge1, rouge2, rougeL, rougeLsum."""

    def __init__(self, variant: Variant | None = None) -> None:
        require("text", "ROUGE")
        from rouge_score.rouge_scorer import RougeScorer  # imports nltk and scipy: a second

        self.variant = variant or Variant()
        self._tokens = _tokenize_function(self.variant)
        tokenizer: Any = SimpleNamespace(tokenize=self._tokens)
        self._package = RougeScorer(list(KINDS), tokenizer=tokenizer)

    def __call__(self, prediction: str, reference: str) -> dict[str, Score]:
        """The scores of one pair; UsageError for a reference without a token."""
        if not self._tokens(reference):
            dropped = self.variant.tokenizer == "ascii" and has_non_ascii_letters(reference)
            hint = " of a-z and 0-9: use tokenizer unicode" if dropped else ""
            raise UsageError(f"the reference {reference[:40]!r} has no word{hint}")
        found = self._package.score(self._lines(reference), self._lines(prediction))
        return {kind: Score(*map(float, found[kind])) for kind in KINDS}

    def _lines(self, text: str) -> str:
        """One sentence per line, because the package splits at line ends."""
        return "\n".join(sentences(text)) if self.variant.splitter == "sentence" else text


@dataclass(frozen=True)
class Rouge:
    """The scores of every item, and what limits the interpretation of their means."""

    variant: Variant
    each: Mapping[str, NDArray[np.float64]]  # by kind: (items, 3), as in MEASURES
    empty: int  # predictions without a token: they score 0
    dropped: int  # items with letters or digits that the tokenizer takes for spaces
    unsplit: int  # items with two sentences on one line, which splitter "newline" takes for one

    @property
    def n(self) -> int:
        """The number of items."""
        return len(self.each[KINDS[0]])

    def column(self, kind: str, measure: Measure = "f") -> NDArray[np.float64]:
        """The score of every item."""
        return self.each[kind][:, MEASURES.index(measure)]

    def estimate(self, kind: str, measure: Measure = "f", seed: int = 0) -> Estimate:
        """The mean over items with a 95 % interval: bootstrap, or Student's t below 20 items."""
        stream = Seed(seed).child("rouge", kind, measure)
        return _mean_over_items(self.column(kind, measure), stream)

    def remarks(self) -> list[str]:
        """Warnings about the texts, each with advice."""
        counted = (
            (self.empty, "predictions without a word score 0"),
            (self.dropped, "items have letters that tokenizer ascii drops; unicode keeps them"),
            (
                self.unsplit,
                "items have sentences that share a line, so their Lsum is not by "
                "sentence (without line ends it is L); splitter sentence splits them",
            ),
        )
        return [f"{count:,} of {self.n:,} {said}" for count, said in counted if count]

    def as_json(self) -> dict[str, Any]:
        """The document of `attnlab rouge --json`."""
        scores = {
            kind: {m: _interval_json(self.estimate(kind, m)) for m in MEASURES} for kind in KINDS
        }
        return {
            "variant": self.variant.as_json(),
            "n": self.n,
            "empty_predictions": self.empty,
            "items_with_dropped_letters": self.dropped,
            "items_with_unsplit_sentences": self.unsplit,
            "interval": self.estimate(KINDS[0]).method,
            "scores": scores,
            "items": {kind: self.column(kind).tolist() for kind in KINDS},
        }


def rouge(
    predictions: Sequence[str], references: Sequence[str], variant: Variant | None = None
) -> Rouge:
    """Score each prediction against the reference at the same index."""
    if len(predictions) != len(references):
        raise UsageError(f"{len(predictions)} predictions for {len(references)} references")
    if not references:
        raise UsageError("no texts to score")
    pairs = list(zip(predictions, references, strict=True))
    score, rows = Scorer(variant), []
    for number, pair in enumerate(pairs, 1):
        try:
            rows.append(score(*pair))
        except UsageError as error:
            raise UsageError(f"item {number}: {error}") from None
    return Rouge(
        score.variant,
        {kind: np.array([row[kind] for row in rows]) for kind in KINDS},
        empty=sum(not _tokenize_function(score.variant)(p) for p in predictions),
        dropped=sum(
            score.variant.tokenizer == "ascii" and has_non_ascii_letters("\n".join(p))
            for p in pairs
        ),
        unsplit=sum(
            score.variant.splitter == "newline" and any(map(shares_a_line, p)) for p in pairs
        ),
    )


def shares_a_line(text: str) -> bool:
    """Whether two sentences share a line; without line breaks, Lsum by newline equals L."""
    return len(sentences(text)) > sum(bool(line.strip()) for line in text.split("\n"))


def difference(
    one: Rouge, other: Rouge, measure: Measure = "f", seed: int = 0
) -> dict[str, Estimate]:
    """Mean difference one − other over items for each kind, by paired bootstrap."""
    if one.variant != other.variant:
        raise UsageError(f"not comparable: {one.variant}; {other.variant}")
    if one.n != other.n:
        raise UsageError(f"not the same items: {one.n} and {other.n}")
    found = {}
    for kind in KINDS:
        gap = one.column(kind, measure) - other.column(kind, measure)
        e = _mean_over_items(gap, Seed(seed).child("rouge", "difference", kind, measure), -1.0)
        found[kind] = e.transform(lambda e: replace(e, method=f"paired {e.method}"))
    return found


def _mean_over_items(items: NDArray[np.float64], seed: Seed, least: float = 0.0) -> Estimate:
    e = mean_over_items(items, seed.numpy_generator())
    if items.size >= MIN_BOOTSTRAP_ITEMS:
        return e
    # a mean of scores cannot lie outside
    return e.clip(least, 1.0)


def _interval_json(e: Estimate) -> dict[str, float]:
    return {"value": e.value, "low": e.low, "high": e.high}


@lru_cache(maxsize=8)
def _tokenize_function(variant: Variant) -> Callable[[str], list[str]]:
    from nltk.stem.porter import PorterStemmer
    from rouge_score.tokenize import tokenize

    # with a cache, because it takes 20 µs per word
    stem: Callable[[str], str] = lru_cache(maxsize=1 << 17)(PorterStemmer().stem)
    if variant.tokenizer == "ascii":
        stemmer: Any = SimpleNamespace(stem=stem) if variant.stemmer else None
        return lambda text: tokenize(text, stemmer)
    if not variant.stemmer:
        return words
    # as the package does: ASCII words of more than three letters only
    return lambda text: [stem(w) if len(w) > 3 and w.isascii() else w for w in words(text)]
