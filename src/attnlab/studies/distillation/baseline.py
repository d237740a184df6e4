"""What needs no model: the first sentences of an article, and what line ends alone do to Lsum."""

from typing import Any

import numpy as np

from attnlab.audit.checks.rouge import rouge as rouge_audit
from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.lab.trial import Outcome, Trial
from attnlab.measure.rouge import Scorer, rouge
from attnlab.measure.sentences import sentences
from attnlab.studies.distillation.checks import as_metrics
from attnlab.studies.distillation.data import Material, several, splits_of
from attnlab.studies.distillation.scoring import (
    a_sentence_a_line,
    as_json,
    columns,
    means,
    on_one_line,
    scored,
    variant_of,
    words,
)
from attnlab.studies.distillation.settings import DistilSettings
from attnlab.tasks.summaries import lead_sentences

LONGER, SHORTER = 4, 3  # sentences of the two leads that line ends turn round


def without_model(s: DistilSettings, trial: Trial, data: Material) -> Outcome:
    """The first sentences of the article; and the audits of data and measure, which need no model.

    It reads what the models read: the articles after they were cut.
    """
    texts = [lead_sentences(row.article, s.lead) for row in data.test]
    references = [row.summary for row in data.test]
    variant, splits = variant_of(trial.config), splits_of(s).as_dict()
    found = [
        rouge_audit(Scorer(variant), texts=references),
        split_overlap(
            {name: [row.article for row in rows] for name, rows in splits.items()}
            | {f"{name} summaries": [r.summary for r in rows] for name, rows in splits.items()},
        ),
    ]
    rated = scored(texts, references, variant)
    metrics = (
        means(rated)
        | as_metrics(found)
        | {
            "words": words(texts),
            "reference_words": words(references),
            "articles_cut": data.cut,
            "rouge_variant": str(variant),
            "reference_sentences": float(np.mean([len(sentences(r)) for r in references])),
        }
    )
    documents = {
        "summaries.json": as_json(texts),
        "references.json": as_json(references),
        "articles.json": as_json([row.article for row in data.test[: s.shown]]),
    }
    return Outcome(metrics, arrays=columns(rated), samples=texts[: s.shown], documents=documents)


def line_ends(s: DistilSettings, trial: Trial) -> Outcome:
    """Leads of real cases, on one line and a sentence a line: what line ends alone do to Lsum."""
    rows, variant = several(s), variant_of({**trial.config, "splitter": "newline"})
    sentence = variant_of({**trial.config, "splitter": "sentence"})
    longer, shorter = ([lead_sentences(row.article, k) for row in rows] for k in (LONGER, SHORTER))
    people = [row.summary for row in rows]
    joined, lined = [on_one_line(r) for r in people], [a_sentence_a_line(r) for r in people]
    found = {
        "one_line": rouge([on_one_line(t) for t in longer], joined, variant),
        "lines": rouge([a_sentence_a_line(t) for t in longer], lined, variant),
        "longer": rouge([on_one_line(t) for t in longer], people, variant),
        "shorter": rouge([a_sentence_a_line(t) for t in shorter], people, variant),
        "longer_sentence": rouge(longer, people, sentence),
        "shorter_sentence": rouge(shorter, people, sentence),
    }
    arrays = {f"{name}_{kind}": r.column(kind) for name, r in found.items() for kind in r.each}
    metrics: dict[str, Any] = {name: float(v.mean()) for name, v in arrays.items()}
    gap = np.abs(arrays["one_line_rougeL"] - arrays["one_line_rougeLsum"])
    metrics |= {"cases": len(rows), "largest_gap_on_one_line": float(gap.max())}
    return Outcome(metrics, arrays=arrays)
