"""The answer and the interpretation, written from verdicts and numbers."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.measure.intervals import Estimate
from attnlab.studies.knowledge.arms import LABELS
from attnlab.studies.knowledge.evidence import Arms
from attnlab.studies.knowledge.settings import KnowledgeSettings

ALPHA = 0.05
REPORTED = {"none": 0.020, "pretrained": 0.186, "perceiver-course": 0.050}


def answer(claims: Sequence[Claim]) -> str:
    """Knowledge first, then whether confidence shows it."""
    found = {c.name: c for c in claims}
    knows, sure = found.get("pretraining-knows"), found.get("sure-of-invented")
    if knows is None:
        return "Not settled: the arms 'none' and 'pretrained' were not both run."
    gain = f"{100 * knows.estimate.value:.0f} points"
    first = {
        "holds": f"Yes: what stands only in the text it has read is worth {gain} of accuracy",
        "fails": f"No: reading the text gains {gain} of accuracy, less than 15",
        "undecided": f"Not settled: reading gains {gain} ({knows.why})",
    }[knows.verdict]
    if sure is None or not math.isfinite(sure.estimate.value):
        return f"{first}."
    second = {
        "holds": "its confidence tells, in part, whom it has read of",
        "fails": "its confidence does not tell whom it has read of",
        "undecided": "whether its confidence tells whom it has read of is not settled",
    }[sure.verdict]
    return f"{first}; {second} (AUROC {sure.estimate.value:.2f})."


def discussion(arms: Arms, claims: Sequence[Claim], s: KnowledgeSettings) -> list[Section]:
    """What is known, only memorised, made up; what was reported; how it was done."""
    found = {c.name: c for c in claims}
    sections = [
        Section("What the model knows", _known(arms)),
        Section("Why a memorised fact is not always given when asked for", _memorised(arms, found)),
        Section("What it makes up", _invention(arms)),
        Section("Beside what was reported", _reported(arms)),
        Section("How it was measured", _measured(arms, s)),
    ]
    return [section for section in sections if section.paragraphs]


def _share(e: Estimate) -> str:
    if not math.isfinite(e.value):
        return "not measured"
    return f"{100 * e.value:.1f} % [{100 * e.low:.1f}, {100 * e.high:.1f}] of {e.n}"


def _known(arms: Arms) -> tuple[str, ...]:
    lines = [
        f"{LABELS[arm]}: {_share(arms.share(arm, 'read'))} people who were only read of; of those "
        f"whose place is an answer in fine-tuning {_share(arms.share(arm, 'seen'))}, of the others "
        f"{_share(arms.share(arm, 'unseen'))}."
        for arm in arms.names()
    ]
    if not lines:
        return ()
    first = arms.names()[0]
    base = (
        f"Always giving the commonest place gets {100 * arms.mean(first, 'majority'):.1f} %; the "
        f"place stands in the text for {100 * arms.mean(first, 'ceiling'):.1f} % of them."
    )
    return (*lines, base)


def _memorised(arms: Arms, found: Mapping[str, Claim]) -> tuple[str, ...]:
    rows = []
    for arm in arms.names():
        kept, asked = arms.share(arm, "recalled"), arms.share(arm, "read")
        if kept.n:
            rows.append(
                f"{LABELS[arm]}: it completes {_share(kept)} sentences of the text with the right "
                f"place, and answers {_share(asked)} questions about the same people."
            )
    if not rows:
        return ()
    why = (
        "To complete a sentence, the model needs the sentence: which letters followed these. To "
        "answer a question, it needs the place bound to the name alone, whatever stands around "
        "it. Told in one form only, the first is enough to lower the loss; told in many forms, "
        "the name is all that they share. And the way from the name to the place must be learnt "
        "from the people who are asked about in fine-tuning: with few of them, they are learnt "
        "by heart instead."
    )
    claim = found.get("phrasings-help")
    more = () if claim is None else (f"{claim.statement}: {claim.verdict} ({claim.why}).",)
    return (*rows, *_both(arms), why, *more)


def _both(arms: Arms) -> list[str]:
    """The same people, memorised and asked for."""
    lines = []
    for arm in arms.names():
        kept, lost = arms.share(arm, "memorised"), arms.share(arm, "forgotten")
        if kept.n:
            lines.append(
                f"{LABELS[arm]}: of the people whose sentence it completes it answers "
                f"{_share(kept)}; of those whose sentence it does not, {_share(lost)}. What the "
                "first number lacks to 100 % is memorised and not given when asked for."
            )
    return lines


def _invention(arms: Arms) -> tuple[str, ...]:
    lines = []
    for arm in arms.names():
        values = {kind: arms.mean(arm, f"{kind}_confidence") for kind in
                  ("taught", "read", "unread", "invented")}  # fmt: skip
        told = ", ".join(f"{kind} {v:.2f}" for kind, v in values.items() if math.isfinite(v))
        top = Counter[str]()
        for row in arms.rows(arm):
            for part in str(row.get("invented_top") or "").split("; "):
                said, _, count = part.rpartition(" ")
                top[said] += int(count) if count.isdigit() else 0
        often = ", ".join(f"{said or '(nothing)'} {n}" for said, n in top.most_common(3) if n)
        lines.append(
            f"{LABELS[arm]}: mean confidence {told}; calibration error of read people "
            f"{arms.mean(arm, 'calibration_error'):.2f}"
            + (f"; to invented people it says most often {often}." if often else ".")
        )
    return (*lines, *_surnames(arms))


def _surnames(arms: Arms) -> list[str]:
    """By seed the p of shuffled surnames: each seed has a world of its own."""
    lines = []
    for arm in arms.names():
        ps = list(arms.values(arm, "surname_p").values())
        if ps:
            lines.append(
                f"{LABELS[arm]}: two invented people with the same surname get the same place "
                f"{100 * arms.mean(arm, 'surname_agreement'):.1f} % of the time, with surnames "
                f"shuffled {100 * arms.mean(arm, 'surname_shuffled'):.1f} % (p by permutation, a "
                f"seed: {', '.join(f'{p:.3f}' for p in ps)}): "
                + ("the surname decides, in part." if max(ps) < ALPHA else
                   "not in every world more than chance." if min(ps) < ALPHA else
                   "no more than chance.")
            )  # fmt: skip
    return lines


def _reported(arms: Arms) -> tuple[str, ...]:
    lines = [
        f"{LABELS[arm]}: ours {_share(arms.share(arm, 'read'))}, reported {100 * value:.1f} % on "
        "another text and other people: not comparable."
        for arm, value in REPORTED.items()
        if arms.rows(arm)
    ]
    if arms.rows("perceiver-course"):
        lines.append(
            "The reported 5.0 % of the Perceiver is what always answering 'London' gets: with the "
            "course's mask a latent reads only the characters before its own number."
        )
    return tuple(lines)


def _measured(arms: Arms, s: KnowledgeSettings) -> tuple[str, ...]:
    world = (
        f"{s.people} real people of {s.places or 'all'} places, told of in {s.phrasings} sentences "
        f"each; half of them are asked about in fine-tuning, the others are the test. "
        f"{s.unread} real people and {s.invented} invented names are never mentioned."
        " Another world is drawn for every seed, the same one for every arm."
        if s.source == "people"
        else f"Text and questions from files ({s.pretrain_text}, {s.train}, {s.dev}), the same "
        "for every seed; an interval over seeds covers weights and the order of batches only."
    )
    return (
        world,
        "Exact match after Unicode NFC and white space are made equal; answers by greedy decoding; "
        "confidence is the probability of the answer with its end. The same function prepares "
        "questions for training and for the test; a character of neither training text is one "
        "unknown character in both.",
    )  # fmt: skip
