"""ROUGE of a list of texts, every way the study compares: F of each item, by name.

rouge1 rouge2 rougeL rougeLsum    by the study's stemmer, tokenizer and splitter
newline                           Lsum as the package splits it, at line ends as they are written
joined                            the same after every line end became a space: it is L
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlab.measure.rouge import KINDS, Rouge, Variant, rouge
from attnlab.measure.sentences import sentences

LSUMS = ("newline", "joined")
COLUMNS = (*KINDS, *LSUMS)


def variant_of(c: Any) -> Variant:
    """As the trial's configuration names it."""
    return Variant(stemmer=c["stemmer"], tokenizer=c["tokenizer"], splitter=c["splitter"])


def scored(texts: Sequence[str], references: Sequence[str], variant: Variant) -> Rouge:
    """All columns; an empty text scores 0."""
    found = rouge(texts, references, variant)
    each = dict(found.each)
    by_line = Variant(variant.stemmer, variant.tokenizer, "newline")
    each["newline"] = rouge(texts, references, by_line).each["rougeLsum"]
    flat = rouge([on_one_line(t) for t in texts], [on_one_line(r) for r in references], by_line)
    each["joined"] = flat.each["rougeLsum"]
    return Rouge(variant, each, found.empty, found.dropped, found.unsplit)


def on_one_line(text: str) -> str:
    """Every line end a space."""
    return " ".join(text.split())


def a_sentence_a_line(text: str) -> str:
    """A line end after every sentence, and nowhere else."""
    return "\n".join(on_one_line(sentence) for sentence in sentences(text))


def columns(found: Rouge) -> dict[str, np.ndarray]:
    """F of every item by column."""
    return {name: found.column(name).astype(np.float64) for name in COLUMNS}


def means(found: Rouge) -> dict[str, float]:
    """The mean of every column."""
    return {name: float(values.mean()) for name, values in columns(found).items()}


def words(texts: Sequence[str]) -> float:
    """Mean number of words."""
    return float(np.mean([len(text.split()) for text in texts]))


def as_json(texts: Sequence[str]) -> str:
    """Texts as `attnlab rouge` reads them from a .json file."""
    return json.dumps(list(texts), ensure_ascii=False, indent=1)
