"""How heads become one output: concatenated, shuffled, shifted or re-weighted; what leaks."""

from collections.abc import Sequence
from typing import Any, ClassVar

from attnlab.lab.claim import Claim, judge, judge_check
from attnlab.lab.study import StudySettings, deferred, setting
from attnlab.measure.intervals import exp_estimate
from attnlab.studies.mini_gpt.study import (
    OFF,
    GPTArms,
    MiniGPTSettings,
    MiniGPTStudy,
    Parts,
    reported_ratio,
)

BATCH, HEADS, CAUSAL = "re-weight by batch", "re-weight by heads", "re-weight causal"
PLAIN = "concatenate"
MOVED = "largest change of a log-probability"

MERGING: dict[str, Parts] = {
    PLAIN: {"merge": {"name": "concat"}},
    "shuffle each time": {"merge": {"name": "shuffle", "when": "forward"}},
    "shuffle once": {"merge": {"name": "shuffle", "when": "once"}},
    "shift": {"merge": {"name": "shift"}},
    BATCH: {"merge": {"name": "reweight", "over": "batch"}},
    HEADS: {"merge": {"name": "reweight", "over": "heads"}},
    CAUSAL: {"merge": {"name": "reweight-causal"}},
    "attention off": OFF,
}


class HeadMergingSettings(MiniGPTSettings):
    """The settings of mini GPTs, with scores in full batches."""

    # Weights that are shares of a batch are larger in a smaller one: the last must be full too.
    scored: int = setting(
        "sentences of each split that are scored, in full batches", 1184, smoke=12, full=3968, ge=4
    )
    singles: int = setting(
        "dev sentences that are also scored one at a time", 160, smoke=4, full=256, ge=2
    )


class HeadMerging(MiniGPTStudy):
    """Reported dev perplexities: concatenate 381, shuffle 384, shift 382, re-weight 346."""

    Settings: ClassVar[type[StudySettings]] = HeadMergingSettings
    name = "head-merging"
    question = "Does re-weighting the heads by their norms beat concatenating them?"
    source = "A course report on a 3-layer GPT: concat 381, shuffle 384, shift 382, re-weight 346"
    expected: ClassVar = {
        "smoke": "about 40 seconds on two cores",
        "quick": "about 11 minutes on two cores",
        "full": "about 4 minutes on one H200 with 7 workers",
    }
    parts = MERGING
    plain = PLAIN
    must_fail: ClassVar = {
        "causality": (BATCH, HEADS),
        "padding": (BATCH, HEADS),
        "batch-independence": (BATCH,),
        "eval-determinism": ("shuffle each time",),
    }
    template = "head_merging.md"

    figures = deferred(".figures:head_merging_figures")

    def claims(self, arms: GPTArms) -> Sequence[Claim]:
        """The reported gain, what exposes it, and the permutations."""
        return [
            arms.compare(
                "looks-better",
                "In batches, re-weighting as reported has the lower perplexity",
                (BATCH, PLAIN),
                "dev_sentence_mean",
                below=1.0,
                reported=reported_ratio(346),
            ),
            judge(
                "breaks-alone",
                "Re-weighting as reported: sentences scored one at a time have at least twice the "
                "perplexity that they have in batches",
                exp_estimate(arms.estimate(BATCH, "log_alone_over_batched")),
                above=2.0,
                quantity="perplexity one at a time / in batches",
                trials=arms.ids(BATCH),
                comparison=True,
            ),
            _check(
                arms,
                "plain-alone",
                "Concatenation: a sentence has the same perplexity alone and in a batch",
                "log_alone_over_batched",
                (PLAIN,),
                below=1e-3,
                quantity="largest change of the log perplexity",
            ),
            _leak(arms, "batch-leaks", BATCH),
            _leak(arms, "heads-leaks", HEADS),
            _check(
                arms,
                "causal-does-not-leak",
                "Causal re-weighting: earlier predictions do not change with later words",
                "past_moved",
                (CAUSAL,),
                below=1e-5,
                quantity=MOVED,
            ),
            _leak(arms, "neighbours-leak", BATCH, "neighbour_moved"),
            arms.compare(
                "causal-is-no-gain",
                "Causal re-weighting matches concatenation (±3 %)",
                (CAUSAL, PLAIN),
                above=0.97,
                below=1.03,
            ),
            arms.compare(
                "shift-is-nothing",
                "Shifting the heads by one changes nothing (±2 %)",
                ("shift", PLAIN),
                above=0.98,
                below=1.02,
                reported=reported_ratio(382),
            ),
            _check(
                arms,
                "permutation-theorem",
                "Shifting, or shuffling once, is concatenation with permuted columns of the output "
                "map",
                "twin_gap",
                ("shift", "shuffle once"),
                below=1e-3,
                quantity="largest logit gap to the permuted model",
            ),
            arms.compare(
                "shuffle-costs",
                "A new order of heads in every forward pass does harm",
                ("shuffle each time", PLAIN),
                "dev_sentence_mean",
                above=1.0,
                reported=reported_ratio(384),
            ),
            *arms.shared_claims(PLAIN),
        ]


def _check(
    arms: GPTArms, name: str, statement: str, metric: str, among: Sequence[str], **rest: Any
) -> Claim:
    """An identity: this metric, which theory says is 0, is rounding in every model of the arms."""
    errors = [abs(value) for arm in among for value in arms.values(arm, metric).values()]
    return judge_check(name, statement, errors, trials=arms.ids(*among), **rest)


def _leak(arms: GPTArms, name: str, arm: str, metric: str = "past_moved") -> Claim:
    """The claim that predictions change with words that they must not depend on."""
    how = {BATCH: "as reported", HEADS: "normalised over heads"}[arm]
    changed = {
        "past_moved": "later words changes earlier predictions",
        "neighbour_moved": "the other sentences of a batch changes a sentence's predictions",
    }[metric]
    return judge(
        name,
        f"With re-weighting {how}, changing {changed} (by more than 0.001)",
        arms.geometric(arm, metric),
        above=1e-3,
        quantity=MOVED,
        trials=arms.ids(arm),
    )
