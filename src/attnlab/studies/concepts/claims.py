"""Claims: facts that must hold in every trial, and comparisons paired by seed."""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attnlab.lab.claim import Claim, judge, judge_difference
from attnlab.measure.intervals import Estimate
from attnlab.report.prose import render_prose
from attnlab.studies.concepts.study import Concepts, ConceptsSettings, Evidence

ROUNDING = 1e-6  # 1 − cos of float32 vectors that differ by rounding is far below this
RATIO_ROUNDING = 1e-5  # of a ratio of float32 norms
STANDARD_ERRORS = 3.89  # an exact draw is farther from its probability once in 10,000 draws
ALL = 0.9999  # a share above this is everything

_, _SECTIONS = render_prose((Path(__file__).parent / "claims.md").read_text(encoding="utf-8"), {})
STATEMENTS = {section.heading: section.paragraphs[0] for section in _SECTIONS}


def claims(study: Concepts, e: Evidence) -> list[Claim]:
    """The claims of every part that is in the run."""
    by_part = {
        "pair": _pair,
        "loop": _loop,
        "order": _order,
        "merges": _merges,
        "masking": _masking,
        "ids": _ids,
    }
    s = study.settings
    judged = [claim for part in by_part if part in s.parts for claim in by_part[part](e)]
    targets = s.targets if "anew" in s.parts else ()
    return judged + [claim for target in targets for claim in _adaptation(e, s, target)]


def _level(e: Evidence, arm: str, name: str, metric: str, quantity: str, **limits: Any) -> Claim:
    """The claim that the mean over seeds lies within the limits."""
    return e.level(name, STATEMENTS[name], (arm, metric), quantity=quantity, **limits)


def _exact(
    e: Evidence,
    arm: str,
    name: str,
    metrics: Sequence[str],
    quantity: str,
    expected: float = 0.0,
    **limits: Any,
) -> Claim:
    """The claim that metrics lie within the limits in every trial; the value farthest from
    `expected` decides. "right / all" is a share of two counts."""
    values = [value for metric in metrics for value in _values(e, arm, metric)]
    estimate = Estimate(math.nan, method="nothing was measured")
    if values:
        worst = max(values, key=lambda value: abs(value - expected))
        estimate = Estimate(worst, n=len(values), method="worst of all cases", exact=True)
    return judge(name, STATEMENTS[name], estimate, quantity=quantity, trials=e.ids(arm), **limits)


def _values(e: Evidence, arm: str, metric: str) -> list[float]:
    count, _, of = metric.partition(" / ")
    return [row[count] / (row[of] if of else 1) for row in e.rows(arm)]


def _pair(e: Evidence) -> list[Claim]:
    level, exact = partial(_level, e, "pair"), partial(_exact, e, "pair")
    return [
        exact("pair-form", ["form_share"], "share of pairs", expected=1.0, above=0.999),
        exact("mask-hides-padding", ["masked_most"], "largest 1 − cos", below=ROUNDING),
        level("padding-counts-unmasked", "unmasked", "mean 1 − cos", above=ROUNDING),
        level("segments-count", "no_segments", "mean 1 − cos", above=ROUNDING),
    ]


def _loop(e: Evidence) -> list[Claim]:
    level, exact = partial(_level, e, "loop"), partial(_exact, e, "loop")
    ratio = "gradient norm, two passes / one"
    twice = {"expected": 2.0, "above": 2 - RATIO_ROUNDING, "below": 2 + RATIO_ROUNDING}
    still = ["dropout_eval", "neighbours_eval"]
    return [
        exact("gradients-add", ["not_zeroed"], ratio, **twice),
        exact("eval-is-still", still, "largest change of an output", below=ROUNDING),
        level("train-moves", "neighbours_train", "change of an output", above=ROUNDING),
        exact("eval-records", ["kept_eval"], "bytes saved", above=0.0),
        exact("no-grad-keeps-nothing", ["kept_no_grad"], "bytes saved", below=1.0),
    ]


def _order(e: Evidence) -> list[Claim]:
    return [
        e.difference(
            "shuffling-helps",
            STATEMENTS["shuffling-helps"],
            ("order", "shuffled_accuracy"),
            ("order", "sorted_accuracy"),
            above=0.0,
            quantity="accuracy, shuffled − sorted",
        )
    ]


def _merges(e: Evidence) -> list[Claim]:
    exact = partial(_exact, e, "merges", expected=1.0, above=ALL)
    return [
        exact("same-merges", ["merges_same / merges_learnt"], "share of merges"),
        exact("same-pieces", ["words_same / words_applied"], "share of words"),
    ]


def _masking(e: Evidence) -> list[Claim]:
    def about(name: str, of: str, expected: float) -> Claim:
        items = e.total("masking", of)
        share = e.total("masking", name) / items if items else math.nan
        tolerance = STANDARD_ERRORS * math.sqrt(expected * (1 - expected) / max(items, 1))
        return judge(
            f"masked-{name}",
            STATEMENTS[f"masked-{name}"],
            Estimate(share, n=items, method="share of all items, counted", exact=bool(items)),
            above=expected - tolerance,
            below=expected + tolerance,
            quantity="share of the " + ("tokens" if of == "words" else "selected tokens"),
            trials=e.ids("masking"),
        )

    return [
        about("chosen", "words", 0.15),
        about("mask", "chosen", 0.8),
        about("random", "chosen", 0.1),
        about("kept", "chosen", 0.1),
        _exact(e, "masking", "markers-stay", ["markers"], "selected special tokens", below=1.0),
    ]


def _ids(e: Evidence) -> list[Claim]:
    level, exact = partial(_level, e, "ids"), partial(_exact, e, "ids")
    over = "log perplexity − log vocabulary size"
    ruin = "log perplexity, foreign − own ids"
    return [
        level("foreign-ids-ruin", "log_ratio", ruin, above=0.0, comparison=True),
        level("worse-than-guessing", "log_over_uniform", over, above=0.0, comparison=True),
        exact("segments-are-words", ["segment_gap"], "largest relative difference", below=1e-5),
    ]


def _adaptation(e: Evidence, s: ConceptsSettings, target: str) -> list[Claim]:
    few, many = s.sizes[0], s.sizes[-1]

    def statement(name: str) -> str:
        return STATEMENTS[name].format(text=e.label(target), few=few, many=many)

    def fewer_bits(name: str, one: str, other: str, size: int) -> Claim:
        return e.difference(
            f"{name}-{target}",
            statement(name),
            (target, f"{one}_{size}_bits"),
            (target, f"{other}_{size}_bits"),
            below=0.0,
            quantity=f"bits per byte, {one} − {other}",
        )

    return [
        judge_difference(
            f"shorter-{target}",
            statement("shorter"),
            e.log_ratios((target, "own_fertility"), (target, "borrowed_fertility")),
            below=0.0,
            quantity="log tokens per word, own / news tokenizer",
            trials=e.ids(target),
        ),
        fewer_bits("own-tokenizer-pays", "own", "borrowed", many),
        fewer_bits("pretraining-pays", "continued", "own", few),
        fewer_bits("anew-pays", "own", "continued", many),
        e.level(
            f"mismatch-{target}",
            statement("mismatch"),
            (target, "own_log_ratio"),
            above=0.0,
            quantity="log perplexity, wrong − right ids",
            comparison=True,
        ),
    ]
