"""What may be concluded: accuracy on people who were only read of, arms paired by seed."""

from collections.abc import Sequence

from attnlab.lab.claim import Claim, Reported, judge
from attnlab.measure.intervals import mean_interval
from attnlab.studies.knowledge.arms import KnowledgeArms
from attnlab.studies.knowledge.study import Knowledge, KnowledgeSettings

COURSE = "course report: its own text, 500 dev questions, one run"
POINTS = 0.15  # by so much pretraining must help to count as knowledge
NEAR = 0.1  # above the majority answer
ACCURACY = "read_accuracy"
# name, arm, other arm, statement
PAIRS: tuple[tuple[str, str, str, str], ...] = (
    (
        "local-sees",
        "perceiver-local",
        "perceiver-course",
        "A Perceiver that reads all it may knows more than one with the course's mask",
    ),
    (
        "latents-cost",
        "pretrained",
        "perceiver-local",
        "Full attention knows more than the Perceiver that reads all it may",
    ),
    (
        "phrasings-help",
        "pretrained",
        "one-phrasing",
        "A fact told in many ways is answered more often than one told once",
    ),
    ("rotary-helps", "rotary", "pretrained", "Rotary positions know more than learned ones"),
    (
        "schedule-matters",
        "pretrained",
        "course-schedule",
        "A rate that falls once knows more than the course's, which heats up again",
    ),
    (
        "six-wide-helps",
        "perceiver-wide-6",
        "perceiver-course",
        "The course's Perceiver knows more if the MLP of its up-projection is 6 times as wide as "
        "the embedding instead of 4 times, as a report may be read",
    ),
    (
        "six-weights-help",
        "perceiver-weights-6",
        "perceiver-course",
        "The course's Perceiver knows more if the linear layers of its up-projection start 6 times "
        "as large, as a report may be read",
    ),
)


def claims(study: Knowledge, arms: KnowledgeArms) -> list[Claim]:
    """Every comparison whose arms are part of the run."""
    s, run = study.settings, set(study.settings.arms)
    known = next((arm for arm in ("pretrained", "rotary") if arm in run), None)
    return [
        *([_pretraining_helps(arms, s)] if {"none", "pretrained"} <= run else []),
        *([_near_majority(arms, s)] if "none" in run else []),
        *(
            arms.difference(
                name,
                statement,
                (one, ACCURACY),
                (other, ACCURACY),
                above=0.0,
                quantity=f"accuracy, {one} − {other}",
            )
            for name, one, other, statement in PAIRS
            if {one, other} <= run
        ),
        *(_of_the_reader(arms, known, s) if known else ()),
    ]


def _pretraining_helps(arms: KnowledgeArms, s: KnowledgeSettings) -> Claim:
    gaps = arms.differences(("pretrained", ACCURACY), ("none", ACCURACY))
    return judge(
        "pretraining-knows",
        "Pretraining on text that states the facts raises accuracy by 15 points or more, on "
        "people never asked about before",
        mean_interval(gaps),
        above=POINTS,
        quantity="accuracy, pretrained − no pretraining",
        reported=Reported(0.186 - 0.020, COURSE, comparable=s.of_the_course, note="18.6 % − 2.0 %"),
        trials=arms.ids("pretrained", "none"),
        comparison=True,
    )


def _near_majority(arms: KnowledgeArms, s: KnowledgeSettings) -> Claim:
    return arms.difference(
        "no-text-no-knowledge",
        "Without pretraining, accuracy is no more than 10 points above one constant answer",
        ("none", ACCURACY),
        ("none", "majority"),
        below=NEAR,
        quantity="accuracy − share of the commonest answer",
        reported=Reported(0.02 - 0.05, COURSE, comparable=s.of_the_course, note="2.0 % − 5.0 %"),
    )


def _of_the_reader(arms: KnowledgeArms, arm: str, s: KnowledgeSettings) -> Sequence[Claim]:
    """What one pretrained arm has memorised, is sure of, and makes up."""
    names = {"invented": "names that nobody has", "unread": "real people it never read of"}
    asked = {"invented": s.invented, "unread": s.unread if s.source == "people" else 0}
    kinds = [kind for kind in names if asked[kind]]
    found = [
        arms.difference(
            "memorised-not-extracted",
            "More facts are memorised (their sentence is completed) than are given when asked for",
            (arm, "recalled"),
            (arm, ACCURACY),
            above=0.0,
            quantity="share completed − share answered",
        )
    ]
    if "unread" in kinds:
        found.append(
            arms.difference(
                "text-not-habits",
                "The same model answers more often about people it has read of than about "
                "real people it has not: what it knows is the text, not what names tell",
                (arm, ACCURACY),
                (arm, "unread_accuracy"),
                above=0.0,
                quantity="accuracy, read − unread",
            )
        )
    found += [
        arms.level(
            f"sure-of-{kind}",
            f"Confidence tells people it read of from {names[kind]} (AUROC above ½)",
            (arm, f"auroc_{kind}"),
            above=0.5,
            quantity=f"AUROC of confidence, read − {kind}",
            comparison=True,
        )
        for kind in kinds
    ]
    if s.crossed >= 2:
        found.append(
            arms.level(
                "surname-decides",
                "The place made up for a name that nobody has depends on the surname: two with the "
                "same surname get the same place more often than with surnames shuffled",
                (arm, "surname_excess"),
                above=0.0,
                comparison=True,
                quantity="share of equal answers, same surname − shuffled",
            )
        )
    return found
