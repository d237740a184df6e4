"""What is claimed of hard attention, each sentence decided by the table; numbers of the report."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from attnlab.lab.claim import Claim, judge, judge_check, judge_difference, judge_ratio
from attnlab.measure.intervals import mean_interval
from attnlab.studies.hard_attention.gradients import CLEAR
from attnlab.studies.hard_attention.study import (
    ANNEALED,
    BASELINES,
    COLD,
    HARD,
    HARD_FIXED,
    OFF,
    SOFT,
    THROUGH,
    Evidence,
    HardAttention,
)

ZERO = 1e-12  # what is measured is 0.0; the range must have a width


def claims(study: HardAttention, e: Evidence) -> list[Claim]:
    """Slopes of the output, then what they do to learning."""
    return [*_slopes(e), *_limits(e), *_task(e), *_sideways(e, study.settings.answers)]


def _slopes(e: Evidence) -> list[Claim]:
    """Autograd against differences."""
    check_slopes, measured = partial(judge_check, trials=e.slopes.ids), e.slopes.column
    gaps = measured("softmax_gap")
    return [
        check_slopes(
            "argmax-has-no-slope",
            "Argmax: the slopes of query and keys are exactly 0, by "
            "autograd and by finite differences",
            abs(measured("argmax_largest")),
            below=ZERO,
            quantity="largest slope",
        ),
        check_slopes(
            "argmax-values-have-one",
            "Argmax: the slope of the values is not 0, so they can learn",
            -measured("argmax_values"),
            below=0.0,
            quantity="minus the smallest slope",
        ),
        check_slopes(
            "softmax-agrees",
            f"Softmax: autograd and finite differences agree to 1 in {CLEAR:,.0f} "
            "wherever rounding allows",
            gaps[np.isfinite(gaps)],
            below=1 / CLEAR,
            quantity="largest relative gap",
        ),
        check_slopes(
            "straight-through-disagrees",
            "Straight-through: autograd reports a slope, and finite differences find none",
            1 - measured("through_unseen"),
            below=1 / CLEAR,
            quantity="largest share of the slope that finite differences find",
        ),
    ]


def _limits(e: Evidence) -> list[Claim]:
    """Softmax as its temperature falls, against the hottest."""
    grid, (hottest, coldest, peak) = e.temperatures, e.marked_temperatures()

    def cooled(name: str, statement: str, which: str, at: int, **limits: float) -> Claim:
        slopes = e.medians(f"formula_{which}")
        with np.errstate(divide="ignore"):
            logs = list(np.log(slopes[:, at] / slopes[:, hottest])) if grid else []
        words = f", T = {grid[at]:g} over T = {grid[hottest]:g}" if grid else ""
        quantity = f"{which} query slope{words}"
        return judge_ratio(name, statement, logs, quantity=quantity, trials=e.slopes.ids, **limits)

    return [
        cooled(
            "cooling-first-helps",
            "Softmax: as T falls the typical query slope first grows",
            "median",
            peak,
            above=1.0,
        ),
        cooled(
            "then-it-vanishes",
            "Softmax: as T falls further, the typical query slope falls below its first value",
            "median",
            coldest,
            below=1.0,
        ),
        cooled(
            "the-mean-does-not-vanish",
            "Softmax: the mean slope stays: as T falls, fewer near-ties have larger slopes",
            "mean",
            coldest,
            above=1.0,
        ),
    ]


def _task(e: Evidence) -> list[Claim]:
    """Who learns to look up."""
    right = e.values(SOFT, "accuracy")
    best_rule = {
        row.seed: max(float(row[name]) for name in BASELINES)
        for row in e.table.where(kind="baselines")
    }
    soft, argmax, off = ((arm, "accuracy") for arm in (SOFT, HARD, OFF))
    more, less = partial(e.difference, above=0.0), partial(e.difference, below=0.0)
    return [
        judge_difference(
            "softmax-learns",
            "Softmax: it learns the look-up, better than any rule without a model",
            [right[seed] - best_rule[seed] for seed in sorted(right.keys() & best_rule.keys())],
            above=0.0,
            quantity="accuracy, softmax − the best rule",
            trials=e.ids(SOFT),
        ),
        more("attention-matters", "Attention off: worse, so the task needs attention", soft, off),
        less(
            "argmax-falls-short",
            "Argmax: trained with it, the same model stays behind softmax",
            argmax,
            soft,
        ),
        more(
            "straight-through-learns",
            "Straight-through: it learns more than argmax, although its slope is made up",
            (THROUGH, "accuracy"),
            argmax,
        ),
        more(
            "softmax-can-be-hardened",
            "Softmax, then read with argmax: more is right than after training with argmax",
            (SOFT, "hard_accuracy"),
            argmax,
            quantity="accuracy, softmax read with argmax − argmax",
        ),
        more(
            "annealing-learns",
            "Annealed softmax, read with argmax: it learns more than argmax",
            (ANNEALED, "hard_accuracy"),
            argmax,
            quantity="accuracy, annealed and read with argmax − argmax",
        ),
        less(
            "cold-from-the-start-is-worse",
            "Cold softmax: it learns less than softmax at T = 1",
            (COLD, "accuracy"),
            soft,
        ),
        judge_ratio(
            "cold-is-noisy",
            "Cold softmax: its first gradient is noisier, relative to its size",
            e.differences((COLD, "log_noise"), (SOFT, "log_noise")),
            above=1.0,
            quantity="noise over size of the query and key gradient, cold / softmax",
            trials=e.ids(COLD, SOFT),
        ),
    ]


def _sideways(e: Evidence, answers: int) -> list[Claim]:
    """What argmax can and cannot learn."""
    trained = [row for row in e.table if row.get("arm") in (HARD, HARD_FIXED)]
    chance = 1 / answers
    start, right = (e.values(HARD_FIXED, name) for name in ("found_start", "accuracy"))
    return [
        judge_check(
            "argmax-maps-stay",
            "Argmax: training never moves the query and key maps, at any learning rate",
            [
                max(row["moved_query"], row["moved_key"])
                for row in trained
                if row.get("moved_query") is not None  # None: it diverged
            ],
            below=ZERO,
            quantity="largest relative movement of W_q, W_k",
            trials=e.ids(HARD, HARD_FIXED),
        ),
        judge_check(
            "argmax-routing-stays",
            "Argmax, fixed embeddings: it finds the same items after training as before",
            np.abs(e.differences((HARD_FIXED, "found"), (HARD_FIXED, "found_start"))),
            below=ZERO,
            quantity="largest change of the share of items found",
            trials=e.ids(HARD_FIXED),
        ),
        judge(
            "values-learn-the-rest",
            "Argmax, fixed embeddings: accuracy − what values can learn with a random choice",
            mean_interval([right[s] - (start[s] + (1 - start[s]) * chance) for s in sorted(right)]),
            quantity="accuracy − (found + (1 − found) · chance)",
            trials=e.ids(HARD_FIXED),
        ),
        e.difference(
            "argmax-drifts-sideways",
            "Argmax, trained embeddings: it finds more items after "
            "training, although no gradient passes through its choice",
            (HARD, "found"),
            (HARD, "found_start"),
            above=0.0,
            quantity="share of items found, after − before",
        ),
        judge(
            "errors-push-harder",
            "Argmax, trained embeddings: an item picked in error is "
            "pushed harder than one picked rightly",
            e.geometric(HARD, "pushed_wrong"),
            above=1.0,
            quantity="gradient of the picked embedding, wrong / right",
            trials=e.ids(HARD),
            comparison=True,
        ),
    ]


def facts(study: HardAttention, e: Evidence, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """The given example, the peak of the slope, rules without a model, what helped."""
    given, grid = e.table.where(kind="given").rows, e.temperatures
    _, coldest, peak = e.marked_temperatures()
    gaps = e.slopes.column("formula_gap")
    shown = {claim.name for claim in claims if claim.verdict == "holds"}
    helps = {
        # hardening softmax counts only where softmax learns
        "training with softmax and reading with argmax": {
            "softmax-can-be-hardened",
            "softmax-learns",
        },
        "cooling the softmax while it trains": {"annealing-learns"},
        "the straight-through estimate": {"straight-through-learns"},
    }
    return {
        "given": given[0] if given else None,
        "helps": [words for words, needed in helps.items() if needed <= shown],
        "peak": grid[peak] if grid else None,
        "coldest": grid[coldest] if grid else None,
        "carried": e.slope_curve("formula_share")[coldest].value if grid else None,
        "baselines": {words: e.baseline(name) for name, words in BASELINES.items()},
        "worst_gap": f"{gaps.max():.1e}" if gaps.size else "an unknown part",
    }
