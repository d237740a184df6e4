"""What may be concluded: accuracy on people who were only read of, arms paired by seed."""

from attnlab.lab.arms import Metric
from attnlab.lab.claim import Claim, Reported, judge
from attnlab.measure.intervals import mean_interval
from attnlab.studies.knowledge.arms import KnowledgeArms
from attnlab.studies.knowledge.study import Knowledge, KnowledgeSettings

COURSE = "course report: its own text, 500 dev questions, one run"
POINTS = 0.15  # by so much pretraining must help to count as knowledge
NEAR = 0.1  # above the majority answer
ACCURACY = "read_accuracy"
# the first arm answers more often than the second
PAIRS = {
    "local-sees": ("perceiver-local", "perceiver-course"),
    "latents-cost": ("pretrained", "perceiver-local"),
    "phrasings-help": ("pretrained", "one-phrasing"),
    "rotary-helps": ("rotary", "pretrained"),
    "schedule-matters": ("pretrained", "course-schedule"),
    "six-wide-helps": ("perceiver-wide-6", "perceiver-course"),
    "six-weights-help": ("perceiver-weights-6", "perceiver-course"),
}
STATEMENTS = {
    "local-sees": "A Perceiver that reads every earlier token knows more than one with the "
    "course's mask",
    "latents-cost": "Full attention knows more than the Perceiver that reads every earlier token",
    "phrasings-help": "A fact told in many ways is answered more often than one told once",
    "rotary-helps": "Rotary positions know more than learned ones",
    "schedule-matters": "A learning rate that falls once teaches more than the course's, which "
    "rises again",
    "six-wide-helps": "The course's Perceiver knows more if the MLP of its up-projection is 6 "
    "times as wide as the embedding instead of 4 times, as a report may be read",
    "six-weights-help": "The course's Perceiver knows more if the linear layers of its "
    "up-projection start 6 times as large, as a report may be read",
    "pretraining-knows": "Pretraining on text that states the facts raises accuracy by 15 points "
    "or more, on people never asked about before",
    "no-text-no-knowledge": "Without pretraining, accuracy is no more than 10 points above one "
    "constant answer",
    "memorised-not-extracted": "More facts are memorised (their sentence is completed) than are "
    "given as an answer",
    "text-not-habits": "The same model answers more often about people it has read of than about "
    "real people it has not read of: it knows the text, not only what a name suggests",
    "sure-of-invented": "Confidence tells people it read of from names that nobody has (AUROC "
    "above ½)",
    "sure-of-unread": "Confidence tells people it read of from real people it never read of "
    "(AUROC above ½)",
    "surname-decides": "The place made up for a name that nobody has depends on the surname: two "
    "with the same surname get the same place more often than with surnames shuffled",
}


def claims(study: Knowledge, arms: KnowledgeArms) -> list[Claim]:
    """Every comparison whose arms are part of the run."""
    s, run = study.settings, set(study.settings.arms)
    reader = next((arm for arm in ("pretrained", "rotary") if arm in run), None)
    return [
        *([_pretraining_helps(arms, s)] if {"none", "pretrained"} <= run else []),
        *([_near_majority(arms, s)] if "none" in run else []),
        *(
            _more(arms, name, (one, ACCURACY), (other, ACCURACY), f"accuracy, {one} − {other}")
            for name, (one, other) in PAIRS.items()
            if {one, other} <= run
        ),
        *(_of_the_reader(arms, reader, s) if reader else ()),
    ]


def _more(arms: KnowledgeArms, name: str, one: Metric, other: Metric, quantity: str) -> Claim:
    return arms.difference(name, STATEMENTS[name], one, other, above=0.0, quantity=quantity)


def _pretraining_helps(arms: KnowledgeArms, s: KnowledgeSettings) -> Claim:
    name = "pretraining-knows"
    return judge(
        name,
        STATEMENTS[name],
        mean_interval(arms.differences(("pretrained", ACCURACY), ("none", ACCURACY))),
        above=POINTS,
        quantity="accuracy, pretrained − no pretraining",
        reported=Reported(0.186 - 0.020, COURSE, comparable=s.of_the_course, note="18.6 % − 2.0 %"),
        trials=arms.ids("pretrained", "none"),
        comparison=True,
    )


def _near_majority(arms: KnowledgeArms, s: KnowledgeSettings) -> Claim:
    name = "no-text-no-knowledge"
    return arms.difference(
        name,
        STATEMENTS[name],
        ("none", ACCURACY),
        ("none", "majority"),
        below=NEAR,
        quantity="accuracy − share of the commonest answer",
        reported=Reported(0.02 - 0.05, COURSE, comparable=s.of_the_course, note="2.0 % − 5.0 %"),
    )


def _of_the_reader(arms: KnowledgeArms, arm: str, s: KnowledgeSettings) -> list[Claim]:
    """What one pretrained arm has memorised, is sure of, and makes up."""
    asked = {"invented": s.invented, "unread": s.unread if s.source == "people" else 0}
    answered, completed, unread = ((arm, m) for m in (ACCURACY, "recalled", "unread_accuracy"))
    quantity = "share completed − share answered"
    found = [_more(arms, "memorised-not-extracted", completed, answered, quantity)]
    if asked["unread"]:
        quantity = "accuracy, read − unread"
        found.append(_more(arms, "text-not-habits", answered, unread, quantity))
    levels = {
        f"sure-of-{kind}": (f"auroc_{kind}", 0.5, f"AUROC of confidence, read − {kind}")
        for kind, people in asked.items()
        if people
    }
    if s.crossed >= 2:
        quantity = "share of equal answers, same surname − shuffled"
        levels["surname-decides"] = ("surname_excess", 0.0, quantity)
    for name, (metric, chance, quantity) in levels.items():
        rest = {"above": chance, "quantity": quantity, "comparison": True}
        found.append(arms.level(name, STATEMENTS[name], (arm, metric), **rest))
    return found
