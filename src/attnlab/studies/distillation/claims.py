"""What may be concluded: differences of ROUGE between arms, and what line ends do to Lsum."""

import math

import numpy as np

from attnlab.lab.claim import MIN_SEEDS, Claim, Reported, judge
from attnlab.measure.intervals import LEVEL, Estimate
from attnlab.studies.distillation.evidence import KINDS, Arms, mean_of
from attnlab.studies.distillation.settings import DistilSettings

COURSE = "course report: another teacher, student and data"
# ROUGE-1, -2, -L, -Lsum of a course report, on other data with other models
REPORTED: dict[str, dict[str, float]] = {
    "teacher": {"rouge1": 0.266, "rouge2": 0.084, "rougeL": 0.186, "rougeLsum": 0.216},
    "untuned": {"rouge1": 0.189, "rouge2": 0.031, "rougeL": 0.122, "rougeLsum": 0.160},
    "text": {"rouge1": 0.232, "rouge2": 0.055, "rougeL": 0.146, "rougeLsum": 0.184},
    "human": {"rouge1": 0.251, "rouge2": 0.065, "rougeL": 0.159, "rougeLsum": 0.233},
}
PAIRS: tuple[tuple[str, str, str, str], ...] = (
    ("texts-help", "text", "untuned", "Distilled on the teacher's texts, the student gains"),
    ("logits-help", "logits", "untuned", "Distilled on the teacher's logits, it gains"),
    ("people-help", "human", "untuned", "Tuned on people's summaries, it gains"),
    ("teacher-ahead", "teacher", "untuned", "The teacher is better than the untuned student"),
    ("people-or-texts", "human", "text", "People's summaries teach more than the teacher's"),
    ("logits-or-texts", "logits", "text", "Logits teach more than texts"),
    ("teacher-over-lead", "teacher", "lead", "The teacher beats the article's first sentences"),
    ("texts-over-lead", "text", "lead", "Distilled on texts, the student beats them"),
    ("people-over-lead", "human", "lead", "Tuned on people's summaries, it beats them"),
)
Differences = dict[tuple[str, str], Estimate]  # by rival and kind
RIVALS = ("untuned", "text", "logits", "human")


def claims(arms: Arms, s: DistilSettings) -> list[Claim]:
    """Every comparison whose arms are part of the run; then the columns; then line ends."""
    chosen = [pair for pair in PAIRS if pair[1] in s.arms and pair[2] in s.arms]
    found = [_pair(arms, s.metric, *pair) for pair in chosen]
    if "teacher" in s.arms and any(arm in s.arms for arm in RIVALS):
        found.append(_best(arms, s))
    return [*found, *_line_ends(arms)]


def _pair(arms: Arms, metric: str, name: str, one: str, other: str, words: str) -> Claim:
    return judge(
        name,
        f"{words} ({KINDS[metric]})",
        arms.difference(one, other, metric),
        above=0.0,
        quantity=f"{KINDS[metric]}, {one} − {other}",
        reported=reported(one, other, metric),
        trials=arms.ids(one, other),
        runs=arms.runs(one, other, metric),
    )


def reported(one: str, other: str, kind: str) -> Reported | None:
    """The published difference of two arms, beside ours and not comparable with it."""
    if one not in REPORTED or other not in REPORTED:
        return None
    a, b = REPORTED[one][kind], REPORTED[other][kind]
    return Reported(round(a - b, 3), COURSE, comparable=False, note=f"{a} − {b}, one run")


def _best(arms: Arms, s: DistilSettings) -> Claim:
    """Fails with one column in which another arm is ahead; holds when none can be."""
    rivals = [arm for arm in RIVALS if arm in s.arms]
    pairs = [(arm, kind) for arm in rivals for kind in KINDS]
    level = 1 - (1 - LEVEL) / len(pairs)  # one of many may seem ahead: Bonferroni's
    wide = {pair: arms.difference("teacher", *pair, level) for pair in pairs}
    plain = {pair: arms.difference("teacher", *pair) for pair in pairs}
    (arm, kind), estimate = decisive(plain, wide)
    note = "teacher − tuned on people's in Lsum; it leads there in ROUGE-1, -2 and -L"
    return judge(
        "teacher-best",
        "The teacher is best in every column",
        estimate,
        above=0.0,
        quantity=f"{KINDS[kind]}, teacher − {arm}: the comparison that decides",
        reported=Reported(-0.017, COURSE, comparable=False, note=note),
        trials=arms.ids("teacher", *rivals),
    )


def decisive(plain: Differences, wide: Differences) -> tuple[tuple[str, str], Estimate]:
    """The comparison that speaks most clearly against the teacher.

    Where any interval of `wide`, corrected for being many, lies below 0, the lowest of these; else
    one with too few seeds to tell; else, of the plain ones, which must all lie above 0, the lowest.
    """
    behind = {k: e for k, e in wide.items() if e.n >= MIN_SEEDS and e.high < 0}
    few = {k: e for k, e in plain.items() if e.n < MIN_SEEDS}
    for group, end in ((behind, "high"), (few, "value"), (plain, "low")):
        known = {k: v for k, e in group.items() if math.isfinite(v := getattr(e, end))}
        if known:
            chosen = min(known, key=lambda key: known[key])
            return chosen, group[chosen]
    return next(iter(plain.items()))


def _line_ends(arms: Arms) -> list[Claim]:
    """The same words with and without line ends, on summaries of several sentences, no model."""
    row = arms.first("lines")
    if row is None:
        return []
    values = row.arrays
    gain = values["lines_rougeLsum"] - values["one_line_rougeLsum"]
    turned = values["shorter_rougeLsum"] - values["longer_rougeLsum"]
    by_sentence = values["shorter_sentence_rougeLsum"] - values["longer_sentence_rougeLsum"]
    exact = Estimate(
        float(row["largest_gap_on_one_line"]), n=1, method="computed, not sampled", exact=True
    )
    note = "teacher − tuned on people's: ahead in L (+0.027), behind in Lsum (−0.017)"
    return [
        judge(
            "one-line",
            "Without line ends, Lsum by newline is L",
            exact,
            below=1e-12,
            quantity="largest |Lsum − L| of a text on one line",
            trials=[row.id],
        ),
        _items(
            "line-ends",
            "A line end after each sentence raises Lsum, word for word the same",
            gain,
            row.id,
            "Lsum by newline, with line ends − without",
        ),
        _items(
            "turned-round",
            "Three sentences with line ends beat four without, by newline",
            turned,
            row.id,
            "Lsum by newline, three with − four without",
            Reported(0.017, COURSE, comparable=False, note=note),
        ),
        _items(
            "not-by-sentence",
            "Split by sentence, three sentences beat four",
            by_sentence,
            row.id,
            "Lsum by sentence, three − four",
        ),
    ]


def _items(
    name: str,
    statement: str,
    gaps: np.ndarray,
    trial: str,
    quantity: str,
    reported: Reported | None = None,
) -> Claim:
    return judge(
        name,
        statement,
        mean_of(gaps[None], False, name),
        above=0.0,
        quantity=quantity,
        reported=reported,
        trials=[trial],
        runs=[float(v) for v in gaps],
    )
