"""ROUGE of texts in every way the study compares, and the two trials that need no model.

rouge1 rouge2 rougeL rougeLsum    with the study's stemmer, tokenizer and splitter
newline                           Lsum as the package splits it, at the line breaks of the text
joined                            the same after every line break became a space: it equals L
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnlab.audit.checks.rouge import rouge as rouge_audit
from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.lab.trial import Outcome
from attnlab.measure.rouge import Scorer, Variant, rouge
from attnlab.measure.sentences import sentences
from attnlab.studies.distillation.data import court_cases, load_splits
from attnlab.studies.distillation.study import DistilSettings
from attnlab.tasks.summaries import SummaryRow, SummarySplits, lead_sentences


def variant_of(s: DistilSettings, splitter: str = "") -> Variant:
    """The ROUGE of the settings, or with another splitter."""
    return Variant(stemmer=s.stemmer, tokenizer=s.tokenizer, splitter=splitter or s.splitter)


def score_texts(
    s: DistilSettings, texts: Sequence[str], rows: Sequence[SummaryRow]
) -> tuple[Outcome, int]:
    """All columns against people's summaries, and how many texts are empty, which score 0."""
    references, variant = [row.summary for row in rows], variant_of(s)
    by_line = variant_of(s, "newline")
    flat = rouge([on_one_line(t) for t in texts], [on_one_line(r) for r in references], by_line)
    scores = rouge(texts, references, variant)
    arrays = {
        **{kind: scores.column(kind).copy() for kind in scores.each},
        "newline": rouge(texts, references, by_line).column("rougeLsum").copy(),
        "joined": flat.column("rougeLsum").copy(),
    }
    metrics = {name: float(values.mean()) for name, values in arrays.items()}
    outcome = Outcome(
        metrics | {"words": mean_words(texts)},
        arrays=arrays,
        samples=list(texts[: s.shown]),
        documents={"summaries.json": as_json(texts)},
    )
    return outcome, scores.empty


def on_one_line(text: str) -> str:
    """Replace every line break by a space."""
    return " ".join(text.split())


def one_sentence_per_line(text: str) -> str:
    """Put a line break after every sentence, and nowhere else."""
    return "\n".join(on_one_line(sentence) for sentence in sentences(text))


def mean_words(texts: Sequence[str]) -> float:
    """Mean number of words per text."""
    return float(np.mean([len(text.split()) for text in texts]))


def as_json(texts: Sequence[str]) -> str:
    """Texts as `attnlab rouge` reads them from a .json file."""
    return json.dumps(list(texts), ensure_ascii=False, indent=1)


def first_sentences(s: DistilSettings, data: SummarySplits) -> Outcome:
    """The baseline, and the audits of data and measure.

    It reads what the models read: the articles after they were cut.
    """
    texts = [lead_sentences(row.article, s.lead) for row in data.test]
    references = [row.summary for row in data.test]
    variant, splits = variant_of(s), load_splits(s).as_dict()
    cut = [row not in splits["test"] for row in data.test]
    parts = {name: [row.article for row in rows] for name, rows in splits.items()}
    parts |= {f"{name} summaries": [r.summary for r in rows] for name, rows in splits.items()}
    outcome, _ = score_texts(s, texts, data.test)
    metrics = {
        **outcome.metrics,
        "reference_words": mean_words(references),
        "articles_cut": sum(cut) / len(cut),
        "rouge_variant": str(variant),
        "reference_sentences": float(np.mean([len(sentences(r)) for r in references])),
    }
    documents = {
        **outcome.documents,
        "references.json": as_json(references),
        "articles.json": as_json([row.article for row in data.test[: s.shown]]),
    }
    findings = [rouge_audit(Scorer(variant), texts=references), split_overlap(parts)]
    return replace(outcome, metrics=metrics, documents=documents, findings=findings)


def line_breaks(s: DistilSettings) -> Outcome:
    """Leads of court cases, on one line and one sentence per line, scored against people's."""
    rows, variant = court_cases(s), variant_of(s, "newline")
    sentence = variant_of(s, "sentence")
    # line breaks reverse the order of these two leads
    longer, shorter = ([lead_sentences(row.article, k) for row in rows] for k in (4, 3))
    people = [row.summary for row in rows]
    joined, lined = (list(map(layout, people)) for layout in (on_one_line, one_sentence_per_line))
    scores = {
        "one_line": rouge([on_one_line(t) for t in longer], joined, variant),
        "lines": rouge([one_sentence_per_line(t) for t in longer], lined, variant),
        "longer": rouge([on_one_line(t) for t in longer], people, variant),
        "shorter": rouge([one_sentence_per_line(t) for t in shorter], people, variant),
        "longer_sentence": rouge(longer, people, sentence),
        "shorter_sentence": rouge(shorter, people, sentence),
    }
    arrays = {f"{name}_{kind}": r.column(kind) for name, r in scores.items() for kind in r.each}
    metrics: dict[str, Any] = {name: float(v.mean()) for name, v in arrays.items()}
    gap = np.abs(arrays["one_line_rougeL"] - arrays["one_line_rougeLsum"])
    metrics |= {"cases": len(rows), "largest_gap_on_one_line": float(gap.max())}
    return Outcome(metrics, arrays=arrays)
