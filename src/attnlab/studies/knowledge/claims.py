"""What may be concluded: accuracy on people who were only read of, arms paired by seed."""

from attnlab.lab.claim import Claim, Reported, judge
from attnlab.measure.intervals import mean_interval
from attnlab.studies.knowledge.evidence import Arms
from attnlab.studies.knowledge.settings import KnowledgeSettings

COURSE = "course report: another text, 500 dev questions, one run"
POINTS = 0.15  # by so much pretraining must help to count as knowledge
NEAR = 0.1  # above the majority answer
# name, arm, other arm, statement, what was reported for the difference
PAIRS: tuple[tuple[str, str, str, str, float | None], ...] = (
    (
        "local-sees",
        "perceiver-local",
        "perceiver-course",
        "A Perceiver that reads all it may knows more than one with the course's mask",
        None,
    ),
    (
        "latents-cost",
        "pretrained",
        "perceiver-local",
        "Full attention knows more than the Perceiver that reads all it may",
        None,
    ),
    (
        "phrasings-help",
        "pretrained",
        "one-phrasing",
        "A fact told in many ways is answered more often than one told once",
        None,
    ),
    ("rotary-helps", "rotary", "pretrained", "Rotary positions know more than learned ones", None),
    (
        "schedule-matters",
        "pretrained",
        "course-schedule",
        "A rate that falls once knows more than the course's, which heats up again",
        None,
    ),
    (
        "six-helps",
        "embeddings-6",
        "pretrained",
        "Token embeddings that start 6 times as large know more, as a report has it",
        None,
    ),
)


def claims(arms: Arms, s: KnowledgeSettings) -> list[Claim]:
    """Every comparison whose arms are part of the run."""
    found = []
    if {"none", "pretrained"} <= set(s.arms):
        found.append(_helps(arms))
    if "none" in s.arms:
        found.append(_near(arms))
    for name, one, other, words, reported in PAIRS:
        if {one, other} <= set(s.arms):
            found.append(_pair(arms, name, (one, other), words, reported))
    known = next((arm for arm in ("pretrained", "rotary") if arm in s.arms), None)
    if known is not None:
        found += [_memorised(arms, known), *_confidence(arms, known, s), *_surname(arms, known, s)]
    return found


def _helps(arms: Arms) -> Claim:
    return judge(
        "pretraining-knows",
        "Pretraining on text that states the facts raises accuracy by 15 points or more, on "
        "people never asked about before",
        arms.difference("pretrained", "none"),
        above=POINTS,
        quantity="accuracy, pretrained − no pretraining",
        reported=Reported(0.186 - 0.020, COURSE, comparable=False, note="18.6 % − 2.0 %"),
        trials=arms.ids("pretrained", "none"),
        runs=arms.gaps("pretrained", "none"),
    )


def _near(arms: Arms) -> Claim:
    gaps = arms.gaps("none:read_accuracy", "none:majority")
    return judge(
        "no-text-no-knowledge",
        "Without pretraining, accuracy is no more than 10 points above one constant answer",
        mean_interval(gaps),
        below=NEAR,
        quantity="accuracy − share of the commonest answer",
        trials=arms.ids("none"),
        reported=Reported(0.02 - 0.05, COURSE, comparable=False, note="2.0 % − 5.0 %"),
    )


def _pair(
    arms: Arms, name: str, pair: tuple[str, str], words: str, reported: float | None
) -> Claim:
    said = None if reported is None else Reported(reported, COURSE, comparable=False)
    return judge(
        name,
        words,
        arms.difference(*pair),
        above=0.0,
        quantity=f"accuracy, {pair[0]} − {pair[1]}",
        reported=said,
        trials=arms.ids(*pair),
        runs=arms.gaps(*pair),
    )


def _memorised(arms: Arms, arm: str) -> Claim:
    """Sentences completed from the text against the same facts asked for."""
    pair = (f"{arm}:recalled", f"{arm}:read_accuracy")
    return judge(
        "memorised-not-extracted",
        "More facts are memorised (their sentence is completed) than are given when asked for",
        arms.difference(*pair),
        above=0.0,
        quantity="share completed − share answered",
        trials=arms.ids(arm),
        runs=arms.gaps(*pair),
    )


def _confidence(arms: Arms, arm: str, s: KnowledgeSettings) -> list[Claim]:
    words = {"invented": "names that nobody has", "unread": "real people it never read of"}
    kinds = [kind for kind in words if getattr(s, kind) and arms.values(arm, f"auroc_{kind}")]
    return [
        judge(
            f"sure-of-{kind}",
            f"Confidence tells people it read of from {words[kind]} (AUROC above ½)",
            arms.over_seeds(arm, f"auroc_{kind}"),
            above=0.5,
            quantity=f"AUROC of confidence, read − {kind}",
            trials=arms.ids(arm),
        )
        for kind in kinds
    ]


def _surname(arms: Arms, arm: str, s: KnowledgeSettings) -> list[Claim]:
    """The excess over what shuffled surnames give."""
    if s.crossed < 2 or not arms.values(arm, "surname_excess"):
        return []
    found = list(arms.values(arm, "surname_excess").values())
    return [
        judge(
            "surname-decides",
            "The place made up for a name that nobody has depends on the surname: two with the "
            "same surname get the same place more often than with surnames shuffled",
            mean_interval(found),
            above=0.0,
            runs=found,
            quantity="share of equal answers, same surname − shuffled",
            trials=arms.ids(arm),
        )
    ]
