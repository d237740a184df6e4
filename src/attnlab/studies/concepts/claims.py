"""Claims: facts that must hold in every trial, and comparisons paired by seed."""

import math
from typing import TYPE_CHECKING

from attnlab.lab.claim import Claim, judge
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.concepts.evidence import Evidence

if TYPE_CHECKING:
    from attnlab.studies.concepts.study import Concepts, ConceptsSettings

ROUNDING = 1e-6  # 1 − cos of float32 vectors that differ by rounding is far below this
RATIO_ROUNDING = 1e-5  # of a ratio of float32 norms
MASK_TOLERANCE = 0.02  # of a share of masked words


def claims(study: "Concepts", e: Evidence) -> list[Claim]:
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
    found = [claim for part, make in by_part.items() if part in s.parts for claim in make(e)]
    if "anew" in s.parts:
        found += [claim for target in s.targets for claim in _adaptation(e, s, target)]
    return found


def _pair(e: Evidence) -> list[Claim]:
    return [
        e.exact(
            "pair-form",
            "A BERT tokenizer encodes every pair as [CLS] a [SEP] b [SEP], with segment ids 0, "
            "then 1",
            "pair",
            ["form_share"],
            1.0,
            above=0.999,
            quantity="share of pairs",
        ),
        e.exact(
            "mask-hides-padding",
            "With an attention mask, padding changes the vector of a pair by rounding only",
            "pair",
            ["masked_most"],
            0.0,
            below=ROUNDING,
            quantity="largest 1 − cos",
        ),
        e.level(
            "padding-counts-unmasked",
            "Without the attention mask, the same padding changes the vector",
            ("pair", "unmasked"),
            above=ROUNDING,
            quantity="mean 1 − cos",
        ),
        e.level(
            "segments-count",
            "Setting all segment ids to 0 changes the vector",
            ("pair", "no_segments"),
            above=ROUNDING,
            quantity="mean 1 − cos",
        ),
    ]


def _loop(e: Evidence) -> list[Claim]:
    return [
        e.exact(
            "gradients-add",
            "Without zero_grad, a second backward pass doubles the gradient",
            "loop",
            ["not_zeroed"],
            2.0,
            above=2 - RATIO_ROUNDING,
            below=2 + RATIO_ROUNDING,
            quantity="gradient norm, two passes / one",
        ),
        e.exact(
            "eval-is-still",
            "In eval mode the output of a row is deterministic and does not depend on the other "
            "rows of the batch",
            "loop",
            ["dropout_eval", "neighbours_eval"],
            0.0,
            below=ROUNDING,
            quantity="largest change of an output",
        ),
        e.level(
            "train-moves",
            "In train mode the output of a row depends on the other rows of the batch (batch norm)",
            ("loop", "neighbours_train"),
            above=ROUNDING,
            quantity="change of an output",
        ),
        e.exact(
            "eval-records",
            "eval() alone still saves tensors for a backward pass",
            "loop",
            ["kept_eval"],
            0.0,
            above=0.0,
            quantity="bytes saved",
        ),
        e.exact(
            "no-grad-keeps-nothing",
            "no_grad() saves none",
            "loop",
            ["kept_no_grad"],
            0.0,
            below=1.0,
            quantity="bytes saved",
        ),
    ]


def _order(e: Evidence) -> list[Claim]:
    return [
        e.difference(
            "shuffling-helps",
            "Training on shuffled sentences gives a higher test accuracy than training on "
            "sentences sorted by class",
            ("order", "shuffled_accuracy"),
            ("order", "sorted_accuracy"),
            above=0.0,
            quantity="accuracy, shuffled − sorted",
        )
    ]


def _merges(e: Evidence) -> list[Claim]:
    def least_share(same: str, of: str) -> Estimate:
        shares = [row[same] / row[of] for row in e.rows("merges")]
        value = min(shares, default=math.nan)
        return Estimate(value, n=len(shares), method="least of all seeds", exact=bool(shares))

    return [
        judge(
            "same-merges",
            "The tokenizers library learns the same merges as a program of forty lines, in the "
            "same order",
            least_share("merges_same", "merges_learnt"),
            above=0.9999,
            quantity="share of merges",
            trials=e.ids("merges"),
        ),
        judge(
            "same-pieces",
            "Both split the words of unseen texts into the same tokens",
            least_share("words_same", "words_applied"),
            above=0.9999,
            quantity="share of words",
            trials=e.ids("merges"),
        ),
    ]


def _masking(e: Evidence) -> list[Claim]:
    shares = {
        "chosen": ("15 % of the tokens are selected", "words", 0.15),
        "mask": ("80 % of the selected tokens become [MASK]", "chosen", 0.8),
        "random": ("10 % of the selected tokens become another token", "chosen", 0.1),
        "kept": ("10 % of the selected tokens stay as they are, but are scored", "chosen", 0.1),
    }
    return [
        *(
            judge(
                f"masked-{name}",
                statement,
                e.share("masking", name, of),
                above=expected - MASK_TOLERANCE,
                below=expected + MASK_TOLERANCE,
                quantity="share of the " + ("tokens" if of == "words" else "selected tokens"),
                trials=e.ids("masking"),
            )
            for name, (statement, of, expected) in shares.items()
        ),
        e.exact(
            "markers-stay",
            "[CLS], [SEP] and padding are never selected",
            "masking",
            ["markers"],
            0.0,
            below=1.0,
            quantity="selected special tokens",
        ),
    ]


def _ids(e: Evidence) -> list[Claim]:
    return [
        e.level(
            "foreign-ids-ruin",
            "A pretrained model reads another tokenizer's ids without an error, at a perplexity "
            "at least a hundred times higher",
            ("ids", "log_ratio"),
            above=math.log(100),
            quantity="log perplexity, foreign − own ids",
        ),
        e.level(
            "worse-than-guessing",
            "This perplexity is worse than that of a uniform guess over the vocabulary",
            ("ids", "log_over_uniform"),
            above=0.0,
            quantity="log perplexity − log vocabulary size",
        ),
        e.exact(
            "segments-are-words",
            "GPT-2 adds segment ids as token embeddings: segment 1 is the token of id 1",
            "ids",
            ["segment_gap"],
            0.0,
            below=1e-5,
            quantity="largest relative difference",
        ),
    ]


def _adaptation(e: Evidence, s: "ConceptsSettings", target: str) -> list[Claim]:
    few, many, text = s.sizes[0], s.sizes[-1], e.label(target)

    def fewer_bits(name: str, statement: str, one: str, other: str, size: int) -> Claim:
        return e.difference(
            f"{name}-{target}",
            statement,
            (target, f"{one}_{size}_bits"),
            (target, f"{other}_{size}_bits"),
            below=0.0,
            quantity=f"bits per byte, {one} − {other}",
        )

    return [
        judge(
            f"shorter-{target}",
            f"A tokenizer trained on {text} encodes them in fewer tokens than one trained on news",
            mean_interval(e.log_ratios((target, "own_fertility"), (target, "borrowed_fertility"))),
            below=0.0,
            quantity="log tokens per word, own / news tokenizer",
            trials=e.ids(target),
        ),
        fewer_bits(
            "own-tokenizer-pays",
            f"Trained from scratch on {many:,} bytes of {text}, a model with a tokenizer of their "
            "own needs fewer bits per byte than one with the news tokenizer",
            "own",
            "borrowed",
            many,
        ),
        fewer_bits(
            "pretraining-pays",
            f"With {few:,} bytes of {text}, training the news model further beats training from "
            "scratch with a new tokenizer",
            "continued",
            "own",
            few,
        ),
        fewer_bits(
            "anew-pays",
            f"With {many:,} bytes of {text}, training from scratch with a new tokenizer beats "
            "training the news model further",
            "own",
            "continued",
            many,
        ),
        e.level(
            f"mismatch-{target}",
            f"The model trained on {text} reads the ids of another tokenizer of the same size "
            "without an error, at more than twice the perplexity",
            (target, "own_log_ratio"),
            above=math.log(2),
            quantity="log perplexity, wrong − right ids",
        ),
    ]
