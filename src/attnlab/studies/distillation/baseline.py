"""Trials without a model: the first sentences of an article, and what line breaks do to Lsum."""

from typing import Any

import numpy as np

from attnlab.audit.checks.rouge import rouge as rouge_audit
from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.lab.trial import Outcome
from attnlab.measure.rouge import Scorer, rouge
from attnlab.measure.sentences import sentences
from attnlab.studies.distillation.data import Articles, court_cases, load_splits
from attnlab.studies.distillation.scoring import (
    as_json,
    columns,
    mean_words,
    means,
    on_one_line,
    one_sentence_per_line,
    score,
    variant_of,
)
from attnlab.studies.distillation.study import DistilSettings
from attnlab.tasks.summaries import lead_sentences

LONGER, SHORTER = 4, 3  # sentences of the two leads whose order line breaks reverse


def first_sentences(s: DistilSettings, data: Articles) -> Outcome:
    """The baseline, and the audits of data and measure.

    It reads what the models read: the articles after they were cut.
    """
    texts = [lead_sentences(row.article, s.lead) for row in data.test]
    references = [row.summary for row in data.test]
    variant, splits = variant_of(s), load_splits(s).as_dict()
    parts = {name: [row.article for row in rows] for name, rows in splits.items()}
    parts |= {f"{name} summaries": [r.summary for r in rows] for name, rows in splits.items()}
    scores = score(texts, references, variant)
    metrics = means(scores) | {
        "words": mean_words(texts),
        "reference_words": mean_words(references),
        "articles_cut": data.cut,
        "rouge_variant": str(variant),
        "reference_sentences": float(np.mean([len(sentences(r)) for r in references])),
    }
    documents = {
        "summaries.json": as_json(texts),
        "references.json": as_json(references),
        "articles.json": as_json([row.article for row in data.test[: s.shown]]),
    }
    return Outcome(
        metrics,
        arrays=columns(scores),
        samples=texts[: s.shown],
        documents=documents,
        findings=[rouge_audit(Scorer(variant), texts=references), split_overlap(parts)],
    )


def line_breaks(s: DistilSettings) -> Outcome:
    """Leads of court cases, on one line and one sentence per line, scored against people's."""
    rows, variant = court_cases(s), variant_of(s, "newline")
    sentence = variant_of(s, "sentence")
    longer, shorter = ([lead_sentences(row.article, k) for row in rows] for k in (LONGER, SHORTER))
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
