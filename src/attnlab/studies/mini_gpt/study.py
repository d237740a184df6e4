"""What the three studies of mini GPTs share: settings, trials, baselines, audits.

Each study swaps one part of the same small GPT. All arms get the same text, budget and order of
batches; n-gram models are scored on the same sentences.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from attnlab.audit.checks.attention_worth import attention_worth
from attnlab.audit.finding import Finding
from attnlab.lab.arms import Arms, ArmStudy
from attnlab.lab.claim import Claim, Reported, judge_ratio
from attnlab.lab.study import StudySettings, deferred, setting
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial

Parts = Mapping[str, Mapping[str, Any]]  # part of the GPT -> its configuration in JSON

OFF: Parts = {"mask": {"name": "self"}}  # every position attends to itself only
ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3}
SWITCHED_OFF = "attention off"  # the arm with these parts
HELPS = "attention-helps"  # a claim that each of these studies makes
COURSE = "course report: news sentences, vocabulary 26,604"
PERPLEXITIES = {"dev_perplexity": "perplexity", "dev_sentence_mean": "mean sentence perplexity"}

NORMAL = "I know not what to say to you , my lord ."
UNGRAMMATICAL = ". lord to my , say what you not know to I"
LONG = (
    "If it be so , as I have heard you say , that he who was my friend is now my enemy , and that "
    "the king , my father , will not hear me speak a word for him , then let me go from this place "
    "to some other , where I may live in peace with those that love me , and think no more of what "
    "is past , nor of the men who were the cause of all my grief , for I have seen enough of the "
    "world to know that a good name is soon lost , and that he who has lost it will not find it "
    "again , though he should live a thousand years ."
)


def reported_ratio(dev: float) -> Reported:
    """A dev perplexity of the course report, divided by that of its plain GPT."""
    return Reported(dev / 381, COURSE, comparable=False, note=f"{dev:g} / 381; only ratios compare")


class MiniGPTSettings(StudySettings):
    """The text, the size of the model and the training budget: the same for every arm."""

    text: str = setting("training text: 'shakespeare' or a UTF-8 text file", "shakespeare")
    min_count: int = setting(
        "words that occur less often in the training text are <UNK>", 12, smoke=60, full=3, ge=1
    )
    size: Literal["nano", "micro", "mini"] = setting(
        "layers/heads/width of the model: nano 3/3/48, micro 4/4/128, mini 6/6/192",
        "nano",
        full="micro",
    )
    block: int = setting("longest sentence in tokens, with <START> and <STOP>", 128, smoke=64, ge=8)
    seeds: int = setting("models per arm", 5, smoke=3, ge=1)
    steps: int = setting("training steps", 900, smoke=6, full=1000, ge=1)
    batch: int = setting("sentences per batch", 32, smoke=4, full=128, ge=2)
    by_length: bool = setting("batch sentences of similar length: less padding", True)
    learning_rate: float = setting(
        "peak learning rate of AdamW", 0.003, smoke=0.01, full=0.0014, gt=0
    )
    # with 0.05 some seeds stay long near the unigram: 120 instead of 102, and hide every effect
    warmup: float = setting("share of the steps with a rising learning rate", 0.2, ge=0, le=1)
    scored: int = setting(
        "sentences of each split that are scored", 1200, smoke=12, full=4000, ge=4
    )
    singles: int = setting(
        "dev sentences that are also scored one at a time", 150, smoke=4, full=250, ge=2
    )
    sample_tokens: int = setting("tokens of each generated text", 24, smoke=4, ge=1)
    normal: str = setting("a normal sentence to score", NORMAL)
    ungrammatical: str = setting("the same words in another order", UNGRAMMATICAL)
    long: str = setting("a very long sentence to score", LONG)


class GPTArms(Arms):
    """The trained models by arm, and the n-gram models scored on the same dev sentences."""

    def baselines(self, metric: str = "dev_perplexity") -> dict[str, float]:
        """Perplexity of the n-gram models that ended, by name; left out where it is not known."""
        rows = {row["order"]: row.get(metric) for row in self.table.where(kind="ngram")}
        return {order: float(rows[order]) for order in ORDERS if rows.get(order) is not None}

    def compare(
        self,
        name: str,
        statement: str,
        pair: tuple[str, str],
        metric: str = "dev_perplexity",
        **rest: Any,
    ) -> Claim:
        """The claim that the perplexity of one arm over that of the other lies in a range."""
        one, other = pair
        quantity = f"{PERPLEXITIES[metric]}, {one} / {other}"
        return self.ratio(
            name, statement, (one, metric), (other, metric), quantity=quantity, **rest
        )

    def shared_claims(self, plain: str) -> list[Claim]:
        """Attention is worth something, and the plain model beats bigrams and trigrams."""
        statement = "Attention is worth something: switched off, the perplexity is higher"
        claims = [self.compare(HELPS, statement, (SWITCHED_OFF, plain), above=1.0)]
        for order in ("bigram", "trigram"):
            base = self.baselines().get(order, math.nan)
            logs = [math.log(x / base) for x in self.values(plain, "dev_perplexity").values()]
            statement = f"{plain} beats a {order} model of the same text"
            rest = {"quantity": f"perplexity, {plain} / {order}", "trials": self.ids(plain)}
            claims.append(judge_ratio(f"beats-{order}", statement, logs, below=1.0, **rest))
        return claims


class MiniGPTStudy(ArmStudy):
    """Arms that differ in one part of the GPT, and n-gram baselines."""

    Settings: ClassVar[type[StudySettings]] = MiniGPTSettings
    version = 3  # the test split is scored; three samples; no sentence is cut off
    shares_accelerator = True
    settings: MiniGPTSettings
    parts: ClassVar[Mapping[str, Parts]]  # by arm
    plain: ClassVar[str]  # the arm that the others, and attention switched off, are compared with
    reported_mean: ClassVar = "; the course report gives this one, 1.3 times the other there"
    added_at_full: ClassVar = ""  # what the full scale answers besides
    other_text: ClassVar = "The reported numbers come from news sentences"  # why levels differ

    run = deferred(".trial:run")
    figures = deferred(".figures:figures")
    facts = deferred(".facts:facts")

    def arm_parts(self) -> Mapping[str, Parts]:
        """Arm -> the parts that differ from the plain GPT."""
        return self.parts

    def chosen_arms(self) -> Sequence[str]:
        """All arms."""
        return list(self.arm_parts())

    def arm_settings(self, arm: str) -> Mapping[str, Any]:
        """The parts of the arm."""
        return {"kind": "gpt", "parts": self.arm_parts()[arm]}

    def trials(self) -> Sequence[Trial]:
        """The n-gram models, then every arm with one seed after the other.

        A run that is stopped early has the same seeds in every arm.
        """
        needed = ("text", "min_count", "block", "scored")
        text = {key: value for key, value in self.settings_json().items() if key in needed}
        ngrams = [self.trial(0, kind="ngram", order=o, part="baselines", **text) for o in ORDERS]
        return [*ngrams, *sorted(super().trials(), key=lambda trial: trial.seed)]

    def evidence(self, table: Table) -> GPTArms:
        """The models by arm; arms are called by their names."""
        return GPTArms(table, {arm: arm for arm in self.chosen_arms()})

    def audits(self, arms: GPTArms, claims: Sequence[Claim]) -> Sequence[Finding]:
        """What attention as a whole is worth, beside every difference between arms."""
        compared = {
            claim.name: math.log(claim.estimate.value)
            for claim in claims
            if "perplexity" in claim.quantity
            and claim.name != HELPS
            and not claim.name.startswith("beats-")
            and claim.estimate.value > 0
        }
        logs = arms.log_ratios((SWITCHED_OFF, "dev_perplexity"), (self.plain, "dev_perplexity"))
        return [attention_worth(logs, compared)]
