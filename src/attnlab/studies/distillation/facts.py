"""Rows and lists that the report's template shows: scores, differences, costs, sample texts."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.lab.claim import MIN_SEEDS, Claim
from attnlab.report.prose import decimals
from attnlab.studies.distillation.claims import PAIRS, REPORTED
from attnlab.studies.distillation.evidence import KINDS, TRAINED, ScoredArms
from attnlab.studies.distillation.study import Distillation

ARTICLE = 240  # characters of an article that are shown


def facts(study: Distillation, arms: ScoredArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """What the template needs besides the claims."""
    return {
        "counts": study.answer(claims),
        "columns": KINDS,
        "scores": _scores(arms),
        "gaps": _gaps(arms),
        "samples": _samples(arms, study.settings.shown),
        "models": [arm for arm in arms.names() if arm != "lead"],
        "trained": [arm for arm in arms.names() if arm in TRAINED],
        "lead": arms.first("lead"),
        "student": arms.first("untuned") or arms.first("text"),
    }


def _scores(arms: ScoredArms) -> list[list[str]]:
    """Every arm with all columns, and the reported ones."""
    rows = []
    for arm in arms.names():
        seeds = len(arms.rows(arm))
        count = f", {seeds} seeds" if arms.depends_on_seed(arm) and seeds > 1 else ""
        reported = "/".join(f"{value:.3f}" for value in REPORTED.get(arm, {}).values())
        scores = [decimals(arms.score(arm, kind)) for kind in KINDS]
        rows.append([f"{arms.label(arm)}{count}", *scores, reported])
    return rows


def _gaps(arms: ScoredArms) -> list[list[str]]:
    """Every pair of arms in all columns; (real): enough seeds, and an interval that excludes 0."""
    rows = []
    for _, one, other, _ in PAIRS:
        if {one, other} <= set(arms.names()):
            row = [f"{arms.label(one)} − {arms.label(other)}"]
            for e in (arms.gap(one, other, kind) for kind in KINDS):
                real = e.n >= MIN_SEEDS and (e.low > 0 or e.high < 0)
                row.append(f"{decimals(e, sign='+')}{' (real)' if real else ''}")
            rows.append(row)
    return rows


def _samples(arms: ScoredArms, shown: int) -> list[dict[str, Any]]:
    """The first test articles with people's summary and that of every arm."""
    lead = arms.first("lead")
    if lead is None or not shown:
        return []
    people = json.loads(lead.documents["references.json"])
    samples = []
    for number, article in enumerate(json.loads(lead.documents["articles.json"])):
        begin = article[:ARTICLE] + ("…" if len(article) > ARTICLE else "")
        first = {arms.label(arm): arms.rows(arm)[0].samples for arm in arms.names()}
        texts = {
            label: texts[number] or "(nothing)"
            for label, texts in first.items()
            if number < len(texts)
        }
        samples.append({"article": begin, "people": people[number], "texts": texts})
    return samples
