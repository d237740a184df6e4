"""ROUGE of a list of texts in every way the study compares: the F score of each text, by column.

rouge1 rouge2 rougeL rougeLsum    with the study's stemmer, tokenizer and splitter
newline                           Lsum as the package splits it, at the line breaks of the text
joined                            the same after every line break became a space: it equals L
"""

import json
from collections.abc import Sequence

import numpy as np

from attnlab.measure.rouge import Rouge, Variant, rouge
from attnlab.measure.sentences import sentences
from attnlab.studies.distillation.study import DistilSettings


def variant_of(s: DistilSettings, splitter: str = "") -> Variant:
    """The ROUGE of the settings, or with another splitter."""
    return Variant(stemmer=s.stemmer, tokenizer=s.tokenizer, splitter=splitter or s.splitter)


def score(texts: Sequence[str], references: Sequence[str], variant: Variant) -> Rouge:
    """All columns; an empty text scores 0."""
    scores = rouge(texts, references, variant)
    by_line = Variant(variant.stemmer, variant.tokenizer, "newline")
    flat = rouge([on_one_line(t) for t in texts], [on_one_line(r) for r in references], by_line)
    each = {
        **scores.each,
        "newline": rouge(texts, references, by_line).each["rougeLsum"],
        "joined": flat.each["rougeLsum"],
    }
    return Rouge(variant, each, scores.empty, scores.dropped, scores.unsplit)


def on_one_line(text: str) -> str:
    """Replace every line break by a space."""
    return " ".join(text.split())


def one_sentence_per_line(text: str) -> str:
    """Put a line break after every sentence, and nowhere else."""
    return "\n".join(on_one_line(sentence) for sentence in sentences(text))


def columns(scores: Rouge) -> dict[str, np.ndarray]:
    """The F scores of all texts, by column."""
    return {name: scores.column(name).astype(np.float64) for name in scores.each}


def means(scores: Rouge) -> dict[str, float]:
    """The mean of every column."""
    return {name: float(values.mean()) for name, values in columns(scores).items()}


def mean_words(texts: Sequence[str]) -> float:
    """Mean number of words per text."""
    return float(np.mean([len(text.split()) for text in texts]))


def as_json(texts: Sequence[str]) -> str:
    """Texts as `attnlab rouge` reads them from a .json file."""
    return json.dumps(list(texts), ensure_ascii=False, indent=1)
