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
Grid = tuple[tuple[str, ...], ...]
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
    if not arms.names():
        return []
    found = {c.name: c for c in claims}
    sections = [
        Section("What the model knows", _lines(arms), _known(arms)),
        Section(
            "Why a memorised fact is not always given when asked for",
            _why(arms, found),
            _memorised(arms),
        ),
        Section("What it makes up", _surnames(arms), _invention(arms)),
        Section("Beside what was reported", _reported(arms)),
        Section("How it was measured", _measured(arms, s)),
    ]
    return [section for section in sections if not section.empty]


def _share(e: Estimate) -> str:
    if not math.isfinite(e.value):
        return "not measured"
    return f"{100 * e.value:.1f} % [{100 * e.low:.1f}, {100 * e.high:.1f}] of {e.n}"


def _known(arms: Arms) -> Grid:
    head = (
        "arm",
        "right, of people who were only read of",
        "of them: the place is an answer in fine-tuning",
        "it is not",
    )
    kinds = ("read", "seen", "unseen")
    rows = [(LABELS[arm], *(_share(arms.share(arm, k)) for k in kinds)) for arm in arms.names()]
    return (head, *rows)


def _lines(arms: Arms) -> tuple[str, ...]:
    first = arms.names()[0]
    return (
        f"Always giving the commonest place gets {100 * arms.mean(first, 'majority'):.1f} %; the "
        f"place stands in the text for {100 * arms.mean(first, 'ceiling'):.1f} % of them. "
        "In brackets: Wilson's 95 % interval over all people asked, seeds together.",
    )


def _readers(arms: Arms) -> list[str]:
    """The arms that read the text."""
    return [arm for arm in arms.names() if arms.share(arm, "recalled").n]


def _memorised(arms: Arms) -> Grid:
    """The same people: their sentence completed, their question answered, and both together."""
    head = ("arm", "sentences completed", "answered, of the completed", "of the others")
    kinds = ("recalled", "memorised", "forgotten")
    rows = [(LABELS[arm], *(_share(arms.share(arm, k)) for k in kinds)) for arm in _readers(arms)]
    return (head, *rows)


def _why(arms: Arms, found: Mapping[str, Claim]) -> tuple[str, ...]:
    if not _readers(arms):
        return ()
    claim = found.get("phrasings-help")
    more = () if claim is None else (f"{claim.statement}: {claim.verdict} ({claim.why}).",)
    return (
        "A sentence of the text is completed when, given up to the place, the model writes the "
        "right one. What the second column lacks to 100 % is memorised and not given when asked "
        "for.",
        "To complete a sentence, the model needs the sentence: which letters followed these. To "
        "answer a question, it needs the place bound to the name alone, whatever stands around "
        "it. Told in one form only, the first is enough to lower the loss; told in many forms, "
        "the name is all that they share. And the way from the name to the place must be learnt "
        "from the people who are asked about in fine-tuning: with few of them, they are learnt "
        "by heart instead.",
        *more,
    )


def _invention(arms: Arms) -> Grid:
    kinds = ("taught", "read", "unread", "invented")
    head = (
        "arm",
        *(f"confidence: {kind}" for kind in kinds),
        "calibration error",
        "said most often to invented people",
    )
    rows = []
    for arm in arms.names():
        values = [arms.mean(arm, f"{kind}_confidence") for kind in kinds]
        values.append(arms.mean(arm, "calibration_error"))
        shown = [f"{value:.2f}" if math.isfinite(value) else "–" for value in values]
        rows.append((LABELS[arm], *shown, _often(arms, arm)))
    return (head, *rows)


def _often(arms: Arms, arm: str) -> str:
    """The three commonest answers to people who do not exist, over seeds."""
    top = Counter[str]()
    for row in arms.rows(arm):
        for part in str(row.get("invented_top") or "").split("; "):
            said, _, count = part.rpartition(" ")
            top[said] += int(count) if count.isdigit() else 0
    return ", ".join(f"{said or '(nothing)'} {n}" for said, n in top.most_common(3) if n)


def _surnames(arms: Arms) -> tuple[str, ...]:
    """By seed the p of shuffled surnames: each seed has a world of its own."""
    lines = [
        "Confidence is the probability of the whole answer, a mean over people and seeds; "
        "the calibration error is of the people read of."
    ]
    for arm in arms.names():
        ps = list(arms.values(arm, "surname_p").values())
        if ps and arm in ("none", "pretrained"):
            lines.append(
                f"{LABELS[arm]}: two invented people with the same surname get the same place "
                f"{100 * arms.mean(arm, 'surname_agreement'):.1f} % of the time, with surnames "
                f"shuffled {100 * arms.mean(arm, 'surname_shuffled'):.1f} % (p by permutation, a "
                f"seed: {', '.join(f'{p:.3f}' for p in ps)}): "
                + (
                    "the surname decides, in part."
                    if max(ps) < ALPHA
                    else "not in every world more than chance."
                    if min(ps) < ALPHA
                    else "no more than chance."
                )
            )
    return tuple(lines)


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
    )
