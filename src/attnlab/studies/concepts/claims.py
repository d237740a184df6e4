"""Claims: facts that must hold in every trial, and comparisons paired by seed."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from attnlab.lab.claim import Claim, judge
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.concepts.evidence import Evidence
from attnlab.studies.concepts.study import Concepts, ConceptsSettings

ROUNDING = 1e-6  # 1 − cos of float32 vectors that differ by rounding is far below this
RATIO_ROUNDING = 1e-5  # of a ratio of float32 norms
STANDARD_ERRORS = 3.89  # an exact draw is farther from its probability once in 10,000 draws
ALL = 0.9999  # a share above this is everything

STATEMENTS = {
    "pair-form": "A BERT tokenizer encodes every pair as [CLS] a [SEP] b [SEP], with segment ids "
    "0, then 1",
    "mask-hides-padding": "With an attention mask, padding changes the vector of a pair by "
    "rounding only",
    "padding-counts-unmasked": "Without the attention mask, the same padding changes the vector",
    "segments-count": "Setting all segment ids to 0 changes the vector",
    "gradients-add": "Without zero_grad, a second backward pass doubles the gradient",
    "eval-is-still": "In eval mode the output of a row is deterministic and does not depend on "
    "the other rows of the batch",
    "train-moves": "In train mode the output of a row depends on the other rows of the batch "
    "(batch norm)",
    "eval-records": "eval() alone still saves tensors for a backward pass",
    "no-grad-keeps-nothing": "no_grad() saves no tensors for a backward pass",
    "shuffling-helps": "Training on shuffled sentences gives a higher test accuracy than training "
    "on sentences sorted by class",
    "same-merges": "The tokenizers library learns the same merges as a program of forty lines, in "
    "the same order",
    "same-pieces": "Both split the words of unseen texts into the same tokens",
    "masked-chosen": "15 % of the tokens are selected",
    "masked-mask": "80 % of the selected tokens become [MASK]",
    "masked-random": "10 % of the selected tokens become another token",
    "masked-kept": "10 % of the selected tokens stay as they are, but are scored",
    "markers-stay": "[CLS], [SEP] and padding are never selected",
    "foreign-ids-ruin": "A pretrained model reads another tokenizer's ids without an error, at a "
    "higher perplexity",
    "worse-than-guessing": "With another tokenizer's ids the model is worse than a uniform guess "
    "over the vocabulary",
    "segments-are-words": "GPT-2 adds segment ids as token embeddings: segment 1 is the token of "
    "id 1",
    "shorter": "A tokenizer trained on {text} encodes them in fewer tokens than one trained on "
    "news",
    "own-tokenizer-pays": "Trained from scratch on {many:,} bytes of {text}, a model needs fewer "
    "bits per byte with a tokenizer trained on them than with the news tokenizer",
    "pretraining-pays": "With {few:,} bytes of {text}, training the news model further beats "
    "training from scratch with a new tokenizer",
    "anew-pays": "With {many:,} bytes of {text}, training from scratch with a new tokenizer beats "
    "training the news model further",
    "mismatch": "The model trained on {text} reads the ids of another tokenizer of the same size "
    "without an error, at a higher perplexity",
}


def claims(study: Concepts, e: Evidence) -> list[Claim]:
    """The claims of every part that is in the run."""
    s = study.settings
    by_part = {
        "pair": _pair,
        "loop": _loop,
        "order": _order,
        "merges": _merges,
        "masking": _masking,
        "ids": _ids,
    }
    judged = [claim for part in by_part if part in s.parts for claim in by_part[part](e)]
    if "anew" in s.parts:
        judged += [claim for target in s.targets for claim in _adaptation(e, s, target)]
    return judged


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
    `expected` decides."""
    values = [value for metric in metrics for value in e.values(arm, metric).values()]
    estimate = Estimate(math.nan, method="nothing was measured")
    if values:
        worst = max(values, key=lambda value: abs(value - expected))
        estimate = Estimate(worst, n=len(values), method="worst of all cases", exact=True)
    return judge(name, STATEMENTS[name], estimate, quantity=quantity, trials=e.ids(arm), **limits)


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
    def everything(name: str, same: str, of: str, quantity: str) -> Claim:
        shares = [row[same] / row[of] for row in e.rows("merges")]
        least = min(shares, default=math.nan)
        estimate = Estimate(least, n=len(shares), method="least of all seeds", exact=bool(shares))
        trials = e.ids("merges")
        return judge(name, STATEMENTS[name], estimate, above=ALL, quantity=quantity, trials=trials)

    return [
        everything("same-merges", "merges_same", "merges_learnt", "share of merges"),
        everything("same-pieces", "words_same", "words_applied", "share of words"),
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
        judge(
            f"shorter-{target}",
            statement("shorter"),
            mean_interval(e.log_ratios((target, "own_fertility"), (target, "borrowed_fertility"))),
            below=0.0,
            quantity="log tokens per word, own / news tokenizer",
            trials=e.ids(target),
            comparison=True,
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
