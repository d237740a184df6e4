"""Counting tokens with one attention layer: a solution by positions, and one by tokens."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import model_validator

from attnlab.audit.checks.attention_worth import attention_worth
from attnlab.audit.checks.baselines import baselines
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.finding import Finding
from attnlab.lab.arms import Arms, ArmStudy, Share
from attnlab.lab.claim import Claim, judge_difference
from attnlab.lab.study import StudySettings, deferred, setting
from attnlab.measure.intervals import mean_interval

KINDS = {"positional": "positions", "semantic": "tokens"}  # start -> what its scores are made of
OWN = {"positional": "by_places", "semantic": "by_tokens"}  # start -> accuracy with these alone
PHASES = {"first": "as trained", "gentle": "freed, SGD", "strong": "freed, AdamW"}
TERMS = ("tokens", "token-place", "place-token", "places")  # of a score: query and key
PARTS = ("accuracy", *OWN.values())  # accuracy with all scores, and with one kind alone
FREEING = ("noise", "freed_steps", "gentle_rate")  # settings of what follows the first training


class CountingSettings(StudySettings):
    """The task, the model, the training of a start, and two ways to continue from it.

    The full scale has the published sizes and number of steps; the paper has 35,000 fixed rows and
    200 epochs.
    """

    seeds: int = setting("models per start", 5, smoke=3, full=10, ge=1)
    length: int = setting("tokens in a row", 10, smoke=5, ge=2)
    tokens: int = setting("size of the vocabulary", 15, smoke=4, ge=2)
    width: int = setting(
        "model width; tokens start in one half, positions in the other", 32, smoke=16, full=64, ge=2
    )
    hidden: int = setting("hidden units of the read-out", 128, smoke=64, ge=1)
    steps: int = setting("training steps of a start", 4000, smoke=600, full=200_000, ge=1)
    batch: int = setting("rows per step; every row is new", 32, ge=1)
    learning_rate: float = setting(
        "peak learning rate of AdamW", 0.005, smoke=0.01, full=0.001, gt=0
    )
    noise: float = setting("standard deviation of the freed entries, which were 0", 0.001, ge=0)
    freed_steps: int = setting(
        "training steps after everything is freed", 2000, smoke=100, full=100_000, ge=1
    )
    gentle_rate: float = setting("learning rate of SGD after freeing, as published", 0.001, gt=0)
    scored: int = setting("test rows", 2000, smoke=1000, full=10_000, ge=20)
    points: int = setting("points of a learning curve", 20, smoke=5, full=50, ge=1)

    @model_validator(mode="after")
    def _width_is_even(self) -> "CountingSettings":
        if self.width % 2:
            raise ValueError(f"width {self.width} has no two halves")
        return self


class Counting(ArmStudy):
    """The histogram task of Cui et al. 2024: one architecture, two mechanisms."""

    name = "counting"
    question = "Can one and the same attention layer count by positions and by tokens?"
    source = "Cui et al. 2024 (arXiv 2402.03902), the histogram task"
    arms: ClassVar = {
        "positional": "positional start",
        "semantic": "semantic start",
        "free": "free start",
        "off": "attention off",
    }
    Settings: ClassVar[type[StudySettings]] = CountingSettings
    settings: CountingSettings
    expected: ClassVar = {
        "smoke": "about half a minute on two cores",
        "quick": "about 4 minutes on two cores",
        "full": "not measured",
    }
    # rows, not positions, are the items: the positions of a row are not independent
    shares: ClassVar = {
        "accuracy": Share(),  # a curve
        **{f"{phase}_{part}": Share("scored") for phase in PHASES for part in PARTS},
    }
    shares_accelerator = True
    may_fail: ClassVar = {"collapse": ("off",)}  # without attention a constant is all there is
    template = "report.md"

    run = deferred(".trial:run")
    figures = deferred(".figures:figures")

    def arm_settings(self, arm: str) -> Mapping[str, Any]:
        """A start that holds nothing is not freed: its trial does not depend on how."""
        return dict.fromkeys(FREEING) if arm in ("free", "off") else {}

    def claims(self, arms: Arms) -> Sequence[Claim]:
        """Both solutions exist, need attention, and are kept or left."""
        return [
            *(
                arms.difference(
                    f"{arm}-solves",
                    f"With scores of {kind} alone the model counts: it beats the most frequent "
                    "answer",
                    (arm, "first_accuracy"),
                    (arm, "majority"),
                    above=0.0,
                    quantity=f"accuracy, {arms.label(arm)} − the most frequent answer",
                )
                for arm, kind in KINDS.items()
            ),
            *(
                arms.difference(
                    f"{arm}-needs-attention",
                    f"With attention off the same model is worse than with scores of {kind}",
                    (arm, "first_accuracy"),
                    ("off", "first_accuracy"),
                    above=0.0,
                    quantity=f"accuracy, {arms.label(arm)} − attention off",
                )
                for arm, kind in KINDS.items()
            ),
            *(_kept(arms, arm, way) for way in ("gentle", "strong") for arm in KINDS),
            _untried(arms),
            _mixed(arms),
        ]

    def audits(self, arms: Arms, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Baselines, what attention is worth, and whether the test rows suffice."""
        worse = min(KINDS, key=lambda arm: arms.mean(arm, "first_accuracy"))
        gaps = [c.estimate.value for c in claims if c.name.endswith("-needs-attention")]
        known = {
            "the most frequent answer": majority(arms),
            "chance": 1 / self.settings.length,
            "the model with attention off": arms.mean("off", "first_accuracy"),
        }
        known = {name: value for name, value in known.items() if value == value and arms.names()}
        return [
            baselines(arms.estimate(worse, "first_accuracy"), known, ceiling=1.0),
            attention_worth(arms.differences(("off", "first_nll"), (worse, "first_nll")), {}),
            # rows, not positions: the positions of a row are not independent
            small_sample(arms.right_answers("first_accuracy", self.settings.scored), min(gaps)),
        ]

    def facts(self, arms: Arms, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """What the template needs besides the claims."""
        return {
            "kinds": KINDS,
            "own": OWN,
            "phases": PHASES,
            "phases_of": lambda arm: phases_of(arms, arm),
            "majority": majority(arms),
            "terms": TERMS,
        }


def phases_of(arms: Arms, arm: str) -> list[str]:
    """What was measured of a start: as trained, and after each way of continuing."""
    return [phase for phase in PHASES if arms.values(arm, f"{phase}_accuracy")]


def majority(arms: Arms) -> float:
    """Accuracy of always giving the most frequent answer, mean over the seeds' test rows."""
    known = [row["majority"] for row in arms.table if row.get("majority") is not None]
    return mean_interval(known).value


def _kept(arms: Arms, arm: str, way: str) -> Claim:
    """What the freed model's scores are made of: its own kind alone against the other alone.

    Only starts that solve the task count: where there is no solution, none is kept.
    """
    right, known = arms.values(arm, "first_accuracy"), arms.values(arm, "majority")
    solved = {seed for seed, share in right.items() if share > known[seed]}
    how = "by SGD at the published rate" if way == "gentle" else "as before (AdamW)"
    other = next(name for name in KINDS if name != arm)
    return arms.difference(
        f"{way}-keeps-{arm}",
        f"Freed and trained further {how}, the solution stays {arm}: scores of {KINDS[arm]} alone "
        f"count better than scores of {KINDS[other]} alone",
        (arm, f"{way}_{OWN[arm]}"),
        (arm, f"{way}_{OWN[other]}"),
        above=0.0,
        quantity=f"accuracy, {KINDS[arm]} alone − {KINDS[other]} alone",
        seeds=solved,
    )


def _untried(arms: Arms) -> Claim:
    """The larger movement of the two starts against the smaller one with AdamW, seed by seed."""
    gentle, strong = (
        [arms.values(arm, f"{way}_moved") for arm in KINDS] for way in ("gentle", "strong")
    )
    seeds = sorted(set.intersection(*(set(moved) for moved in gentle + strong)))
    return judge_difference(
        "gentle-is-no-trial",
        "Training further as published moves the weights less than training as before, so it "
        "tests less whether a solution stays",
        [max(moved[s] for moved in gentle) - min(moved[s] for moved in strong) for s in seeds],
        below=0.0,
        quantity="relative change of all weights, as published − as before",
        trials=arms.ids(*KINDS),
    )


def _mixed(arms: Arms) -> Claim:
    """The better of the two kinds alone against all scores, from a start that holds nothing."""
    parts = [arms.values("free", f"first_{metric}") for metric in OWN.values()]
    whole = arms.values("free", "first_accuracy")
    return judge_difference(
        "free-start-mixes",
        "A free start mixes both: with positions alone or tokens alone it counts worse",
        [max(part[seed] for part in parts) - whole[seed] for seed in sorted(whole)],
        below=0.0,
        quantity="accuracy, better kind alone − all scores",
        trials=arms.ids("free"),
    )
