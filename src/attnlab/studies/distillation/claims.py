"""Claims: differences of ROUGE between arms, and what line breaks do to ROUGE-Lsum."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from attnlab.lab.claim import MIN_SEEDS, Claim, Reported, judge, judge_check
from attnlab.measure.intervals import LEVEL, Estimate
from attnlab.studies.distillation.evidence import KINDS, ScoredArms, mean_of
from attnlab.studies.distillation.study import Distillation

COURSE = "course report: another teacher, student and data"
# ROUGE-1, -2, -L, -Lsum of a course report, on other data with other models
REPORTED: dict[str, dict[str, float]] = {
    "teacher": {"rouge1": 0.266, "rouge2": 0.084, "rougeL": 0.186, "rougeLsum": 0.216},
    "untuned": {"rouge1": 0.189, "rouge2": 0.031, "rougeL": 0.122, "rougeLsum": 0.160},
    "text": {"rouge1": 0.232, "rouge2": 0.055, "rougeL": 0.146, "rougeLsum": 0.184},
    "human": {"rouge1": 0.251, "rouge2": 0.065, "rougeL": 0.159, "rougeLsum": 0.233},
}
BEATS = "beats the article's first sentences"
PAIRS: tuple[tuple[str, str, str, str], ...] = (
    ("texts-help", "text", "untuned", "Training on the teacher's summaries helps the student"),
    ("logits-help", "logits", "untuned", "Training on the teacher's logits helps the student"),
    ("people-help", "human", "untuned", "Training on people's summaries helps the student"),
    ("teacher-ahead", "teacher", "untuned", "The teacher is better than the untrained student"),
    ("people-or-texts", "human", "text", "People's summaries teach more than the teacher's"),
    ("logits-or-texts", "logits", "text", "The teacher's logits teach more than its texts"),
    ("teacher-over-lead", "teacher", "lead", f"The teacher {BEATS}"),
    ("texts-over-lead", "text", "lead", f"The student of the teacher's texts {BEATS}"),
    ("people-over-lead", "human", "lead", f"The student of people's summaries {BEATS}"),
)
# leads of court cases, longer and shorter, with and without line breaks: name, one, other, quantity
LINE_BREAKS: tuple[tuple[str, str, str, str], ...] = (
    ("line-ends", "lines", "one_line", "at newlines, with line breaks − without"),
    ("turned-round", "shorter", "longer", "at newlines, three with − four without"),
    ("not-by-sentence", "shorter_sentence", "longer_sentence", "into sentences, three − four"),
)
STATEMENTS = {
    "line-ends": "A line break after each sentence raises Lsum; the words are the same",
    "turned-round": "Split at newlines, three sentences with line breaks beat four without",
    "not-by-sentence": "Split into sentences, three sentences beat four",
}
ahead = partial(judge, above=0.0, comparison=True)  # the claim that a difference is above 0
Differences = dict[tuple[str, str], Estimate]  # by rival and kind
RIVALS = ("untuned", "text", "logits", "human")


def claims(study: Distillation, arms: ScoredArms) -> list[Claim]:
    """Every comparison whose arms are part of the run; then all columns; then line breaks."""
    s = study.settings
    pairs = [pair for pair in PAIRS if pair[1] in s.arms and pair[2] in s.arms]
    comparisons = [_compare(arms, s.metric, *pair) for pair in pairs]
    rivals = [arm for arm in RIVALS if arm in s.arms]
    if "teacher" in s.arms and rivals:
        comparisons.append(_best_everywhere(arms, rivals))
    return [*comparisons, *_line_breaks(arms)]


def _trials(arms: ScoredArms, *names: str) -> list[str]:
    """The trials of these arms, and the one that audits data and ROUGE for all of them."""
    return arms.ids(*dict.fromkeys((*names, "lead")))


def _compare(
    arms: ScoredArms, metric: str, name: str, one: str, other: str, statement: str
) -> Claim:
    return ahead(
        name,
        f"{statement} ({KINDS[metric]})",
        arms.gap(one, other, metric),
        quantity=f"{KINDS[metric]}, {one} − {other}",
        reported=_reported(one, other, metric),
        trials=_trials(arms, one, other),
    )


def _reported(one: str, other: str, kind: str) -> Reported | None:
    """The published difference of two arms, shown beside ours; the two are not comparable."""
    if one not in REPORTED or other not in REPORTED:
        return None
    a, b = REPORTED[one][kind], REPORTED[other][kind]
    return Reported(round(a - b, 3), COURSE, comparable=False, note=f"{a} − {b}, one run")


def _best_everywhere(arms: ScoredArms, rivals: list[str]) -> Claim:
    """Fails if another arm is ahead in one column; holds only if the teacher leads in all."""
    pairs = [(arm, kind) for arm in rivals for kind in KINDS]
    gaps = {pair: arms.gap("teacher", *pair) for pair in pairs}
    (arm, kind), estimate = decisive_at(gaps, LEVEL)
    note = "teacher − trained on people's in Lsum; it leads in ROUGE-1, -2 and -L"
    return ahead(
        "teacher-best",
        "The teacher is best in every column",
        estimate,
        quantity=f"{KINDS[kind]}, teacher − {arm}: the comparison that decides",
        reported=Reported(-0.017, COURSE, comparable=False, note=note),
        trials=_trials(arms, "teacher", *rivals),
    )


def decisive_at(gaps: Differences, level: float) -> tuple[tuple[str, str], Estimate]:
    """`decisive` with intervals at this level; one of many may seem ahead by chance."""
    wide = 1 - (1 - level) / len(gaps)  # Bonferroni
    plain = {pair: e.at(level) for pair, e in gaps.items()}
    pair, estimate = decisive(plain, {pair: e.at(wide) for pair, e in gaps.items()})
    return pair, replace(estimate, recompute=lambda at: decisive_at(gaps, at)[1])


def decisive(plain: Differences, wide: Differences) -> tuple[tuple[str, str], Estimate]:
    """The comparison that speaks most clearly against the teacher.

    If an interval of `wide`, which is corrected for many comparisons, lies below 0: the lowest of
    these. Otherwise one with too few seeds, or else the lowest of the plain ones, which must all
    lie above 0.
    """
    behind = {k: e for k, e in wide.items() if e.n >= MIN_SEEDS and e.high < 0}
    few = {k: e for k, e in plain.items() if e.n < MIN_SEEDS}
    for group, end in ((behind, "high"), (few, "value"), (plain, "low")):
        known = {k: v for k, e in group.items() if math.isfinite(v := getattr(e, end))}
        if known:
            lowest = min(known, key=lambda key: known[key])
            return lowest, group[lowest]
    return next(iter(plain.items()))


def _line_breaks(arms: ScoredArms) -> list[Claim]:
    """The same words with and without line breaks, on summaries of several sentences; no model."""
    row, trials = arms.first("lines"), _trials(arms, "lines")
    check = judge_check(
        "one-line",
        "Without line breaks, Lsum split at newlines equals L",
        [float(row["largest_gap_on_one_line"])] if row else [],
        below=1e-12,
        quantity="largest |Lsum − L| of a text on one line",
        trials=trials,
    )
    note = "teacher − trained on people's: ahead in L (+0.027), behind in Lsum (−0.017)"
    reported = {"turned-round": Reported(0.017, COURSE, comparable=False, note=note)}
    claims = [check]
    for name, one, other, quantity in LINE_BREAKS:
        scores = [row.arrays[f"{case}_rougeLsum"] if row else np.empty(0) for case in (one, other)]
        claims.append(
            ahead(
                name,
                STATEMENTS[name],
                mean_of((scores[0] - scores[1])[None], False, name),
                quantity=f"Lsum split {quantity}",
                trials=trials,
                reported=reported.get(name),
            )
        )
    return claims
