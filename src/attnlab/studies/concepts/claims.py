"""What may be concluded: facts that must hold in every case, and comparisons paired by seed."""

import math

from attnlab.lab.claim import Claim, judge
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.concepts.evidence import Found
from attnlab.studies.concepts.settings import NAMES, ConceptsSettings

# 1 − cos of two float32 vectors that differ by rounding in a few hundred sums: far below this
ROUNDING = 1e-6
EDGE = 0.02  # a share of the masked words may be off by so much


def claims(found: Found, s: ConceptsSettings) -> list[Claim]:
    """Of every part that is in the run."""
    makers = {
        "pair": _pair,
        "loop": _loop,
        "order": _order,
        "merges": _merges,
        "masking": _masking,
        "ids": _ids,
    }
    told = [claim for part, make in makers.items() if part in s.parts for claim in make(found)]
    if "anew" in s.parts:
        told += [claim for target in s.targets for claim in _anew(found, s, target)]
    return told


def _pair(found: Found) -> list[Claim]:
    ids = found.ids("pair")
    return [
        judge(
            "pair-form",
            "A BERT tokenizer writes every pair as [CLS] a [SEP] b [SEP], segments 0 then 1",
            found.exact("pair", ["form_share"], 1.0),
            above=0.999,
            quantity="share of pairs",
            trials=ids,
        ),
        judge(
            "mask-hides-padding",
            "With its mask, padding changes a pair's vector by rounding only",
            found.exact("pair", ["masked_most"], 0.0),
            below=ROUNDING,
            quantity="largest 1 − cos",
            trials=ids,
        ),
        judge(
            "padding-counts-unmasked",
            "Without the mask, the same padding changes the vector",
            found.estimate("pair", "unmasked"),
            above=ROUNDING,
            quantity="mean 1 − cos",
            trials=ids,
        ),
        judge(
            "segments-count",
            "With all segments 0 the encoder reads another pair",
            found.estimate("pair", "no_segments"),
            above=ROUNDING,
            quantity="mean 1 − cos",
            trials=ids,
        ),
    ]


def _loop(found: Found) -> list[Claim]:
    ids = found.ids("loop")
    tight = 1e-5  # of a ratio of float32 norms
    return [
        judge(
            "gradients-add",
            "Without zero_grad a second backward doubles the gradient",
            found.exact("loop", ["not_zeroed"], 2.0),
            above=2 - tight,
            below=2 + tight,
            quantity="gradient, two passes / one",
            trials=ids,
        ),
        judge(
            "eval-is-still",
            "In eval mode dropout draws nothing and neighbours change nothing",
            found.exact("loop", ["dropout_eval", "neighbours_eval"], 0.0),
            below=ROUNDING,
            quantity="largest change of an output",
            trials=ids,
        ),
        judge(
            "train-moves",
            "In train mode a row's output depends on its neighbours (batch norm)",
            found.estimate("loop", "neighbours_train"),
            above=ROUNDING,
            quantity="change of an output",
            trials=ids,
        ),
        judge(
            "eval-records",
            "eval() alone still keeps tensors for a backward pass",
            found.exact("loop", ["kept_eval"], 0.0),
            above=0.0,
            quantity="bytes",
            trials=ids,
        ),
        judge(
            "no-grad-keeps-nothing",
            "no_grad keeps none",
            found.exact("loop", ["kept_no_grad"], 0.0),
            below=1.0,
            quantity="bytes",
            trials=ids,
        ),
    ]


def _order(found: Found) -> list[Claim]:
    gaps = found.gaps("order", "shuffled_accuracy", "sorted_accuracy")
    return [
        judge(
            "shuffling-helps",
            "Sentences in a drawn order teach more than one class after the other",
            mean_interval(gaps),
            above=0.0,
            runs=gaps,
            quantity="accuracy, shuffled − sorted",
            trials=found.ids("order"),
        )
    ]


def _merges(found: Found) -> list[Claim]:
    rows = found.rows("merges")

    def share(same: str, of: str) -> Estimate:
        shares = [r[same] / r[of] for r in rows]
        value = min(shares, default=math.nan)
        return Estimate(value, n=len(shares), method="least of all seeds", exact=bool(shares))

    return [
        judge(
            "same-merges",
            "The library learns the merges of the forty-line program, one by one",
            share("merges_same", "merges_learnt"),
            above=0.9999,
            quantity="share of merges",
            trials=found.ids("merges"),
        ),
        judge(
            "same-pieces",
            "Both cut words of other texts into the same pieces",
            share("words_same", "words_applied"),
            above=0.9999,
            quantity="share of words",
            trials=found.ids("merges"),
        ),
    ]


def _masking(found: Found) -> list[Claim]:
    words = {
        "chosen": ("15 % of the words are chosen", "words", 0.15),
        "mask": ("80 % of the chosen become [MASK]", "chosen", 0.8),
        "random": ("10 % of the chosen become another word", "chosen", 0.1),
        "kept": ("10 % of the chosen stay as they are, and are scored", "chosen", 0.1),
    }
    told = [
        judge(
            f"masked-{name}",
            statement,
            found.share("masking", name, of),
            above=wanted - EDGE,
            below=wanted + EDGE,
            quantity=f"share of the {of}",
            trials=found.ids("masking"),
        )
        for name, (statement, of, wanted) in words.items()
    ]
    never = found.exact("masking", ["markers"], 0.0)
    words_of = "[CLS], [SEP] and padding are never chosen"
    return [
        *told,
        judge(
            "markers-stay",
            words_of,
            never,
            below=1.0,
            quantity="chosen markers",
            trials=found.ids("masking"),
        ),
    ]


def _ids(found: Found) -> list[Claim]:
    ratio, over = (found.values("ids", name) for name in ("log_ratio", "log_over_uniform"))
    ids = found.ids("ids")
    return [
        judge(
            "foreign-ids-ruin",
            "A real model reads another tokenizer's ids without complaint, "
            "with at least a hundred times the perplexity",
            mean_interval(ratio),
            above=math.log(100),
            quantity="log perplexity, foreign − own ids",
            trials=ids,
        ),
        judge(
            "worse-than-guessing",
            "and worse than guessing all words alike",
            mean_interval(over),
            above=0.0,
            quantity="log perplexity − log vocabulary",
            trials=ids,
        ),
        judge(
            "segments-are-words",
            "A GPT-2 adds segment ids as words: segment 1 is the word of id 1",
            found.exact("ids", ["segment_gap"], 0.0),
            below=1e-5,
            quantity="largest difference, relative",
            trials=ids,
        ),
    ]


def _anew(found: Found, s: ConceptsSettings, target: str) -> list[Claim]:
    few, many, words = s.sizes[0], s.sizes[-1], NAMES[target]
    ids = found.ids("anew", target=target)

    def gap(name: str, statement: str, one: str, other: str, size: int) -> Claim:
        gaps = found.gaps("anew", f"{one}_{size}_bits", f"{other}_{size}_bits", target=target)
        return judge(
            f"{name}-{target}",
            statement,
            mean_interval(gaps),
            below=0.0,
            runs=gaps,
            quantity=f"bits per byte, {one} − {other}",
            trials=ids,
        )

    shorter = [
        math.log(a["own_fertility"] / a["borrowed_fertility"])
        for a in found.rows("anew", target=target)
    ]
    wrong = found.values("anew", "own_log_ratio", target=target)
    return [
        judge(
            f"shorter-{target}",
            f"A tokenizer learnt on {words} needs fewer tokens for them than one learnt on news",
            mean_interval(shorter),
            below=0.0,
            quantity="log tokens a word, own / borrowed",
            trials=ids,
        ),
        gap(
            "own-tokenizer-pays",
            f"From fresh weights and {many:,} bytes of {words}, the own "
            "tokenizer gives fewer bits per byte",
            "own",
            "borrowed",
            many,
        ),
        gap(
            "pretraining-pays",
            f"With {few:,} bytes of {words}, going on from the news beats "
            "starting anew with an own tokenizer",
            "continued",
            "own",
            few,
        ),
        gap(
            "anew-pays",
            f"With {many:,} bytes of {words}, starting anew with an own tokenizer "
            "beats going on from the news",
            "own",
            "continued",
            many,
        ),
        judge(
            f"mismatch-{target}",
            "A model reads ids of the other tokenizer, of the same size, "
            "without complaint and with more than twice the perplexity",
            mean_interval(wrong),
            above=math.log(2),
            quantity="log perplexity, wrong − right ids",
            trials=ids,
        ),
    ]
