"""rouge: is it ROUGE, and which one?

Runs: score(text, text) of texts in several scripts and of those given; a pair of sentences in
the other order, on two lines and on one; pairs that only a stemmer, only a tokenizer of ASCII
takes for the same. Number: the lowest score of a text against itself. Fails when that is not 1
(0 for scripts whose letters are dropped: a scorer may refuse such a text, not score it); when
Lsum is L on two lines; when stemmer, tokenizer and splitter are not named, or are not what the
scores show; when two calls differ; when texts given hold sentences that share a line and Lsum is
by newline, so that it measures line ends.

    rouge(Scorer(Variant(splitter="sentence")), texts=references)
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.core.errors import UsageError
from attnlab.measure.rouge import KINDS, shares_a_line
from attnlab.measure.words import words

NAME = "rouge"
CLOSE = 1e-9  # rounding of 2PR/(P + R); the least step of a score is 1/tokens
Score = Callable[[str, str], Mapping[str, Any]]
NAMED = {"stemmer": "none", "tokenizer": "ascii", "splitter": "newline"}  # at its plainest
OWN = {
    "one sentence": "The quick brown fox jumps over the lazy dog.",
    "two lines": "The old cat sat by a door.\nMany dogs ran home together.",
    "numbers": "In 1984 it cost 3.50 pounds, in 2024 7.",
}
FOREIGN = {
    "Greek": "Η γάτα κάθισε στο χαλί",
    "Devanagari": "नेपाली भाषा सुन्दर छ",
    "Han": "猫坐在垫子上",
    "German": "Äpfel, Öl, Übermut",
}
ONE, OTHER = "The old cat sat there", "Many dogs ran home"  # no word in common
INFLECTED = ("we were running home", "we were runs home")
ACCENTED = ("une pêche dans", "une pâche dans")  # "p che" to a rule for a-z


@audit(NAME, threshold=1.0)
def rouge(
    score: Score, variant: Mapping[str, Any] | None = None, texts: Sequence[str] = ()
) -> Finding:
    """Judge score(prediction, reference) -> F by name; what it is called by, or score.variant.

    A value is a number or has `f` or `fmeasure`. Stemmer: "none" (or false), else any name;
    tokenizer: "ascii" or any other; splitter: "newline" or any other.
    """
    named = variant
    if named is None and getattr(score, "variant", None) is not None:
        named = score.variant.as_json()  # pyright: ignore[reportFunctionMemberAccess]
    try:
        self_scores, refused = _self_scores(score, texts)
        shown = _observed_variant(score)
        problems = [*_score_problems(score, self_scores), *_variant_problems(named, shown, texts)]
        pair = (OWN["two lines"], OWN["one sentence"])
        if _values(score, *pair) != _values(score, *pair):
            problems.append("the same pair scores differently when asked again")
    except UsageError as error:
        raise NotApplicable(f"it cannot be judged: {error}") from error
    lowest = min(min(scores.values()) for scores in self_scores.values())
    evidence = {
        "named": dict(named or {}),
        "shown": shown,
        "self_scores": self_scores,
        "refused": refused,
        "problems": problems,
    }
    why = (
        f"every text scores 1 against itself, Lsum is its own score, and stemmer "
        f"{shown['stemmer']}, tokenizer {shown['tokenizer']}, splitter {shown['splitter']} "
        "are what the scores show"
    )
    why += f"; {', '.join(refused)} refused, not scored" if refused else ""
    return Finding.judged(NAME, next(iter(problems), ""), why, lowest, 1.0, evidence)


def _values(score: Score, prediction: str, reference: str) -> dict[str, float]:
    """F by name, whatever the scorer holds it in."""
    values = {}
    for kind, value in score(prediction, reference).items():
        for field in ("f", "fmeasure"):
            value = getattr(value, field, value)
        values[kind] = float(value)
    if "rouge1" not in values:
        raise UsageError(f"there is no rouge1 among {', '.join(values) or 'no scores'}")
    return values


def _self_scores(
    score: Score, texts: Sequence[str]
) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Of every text of two words or more: its scores against itself, or that it was refused."""
    given = {f"text {i + 1}": text for i, text in enumerate(texts) if len(words(text)) > 1}
    self_scores = {name: _values(score, text, text) for name, text in OWN.items()}
    refused = []
    for name, text in (FOREIGN | given).items():
        try:
            self_scores[name] = _values(score, text, text)
        except UsageError:
            refused.append(name)
    return self_scores, refused


def _swapped_sentences(score: Score, between: str) -> dict[str, float]:
    values = _values(score, f"{OTHER}{between}{ONE}", f"{ONE}{between}{OTHER}")
    return {"rougeL": math.nan, "rougeLsum": math.nan} | values


def _score_problems(score: Score, self_scores: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """A text that does not score 1 against itself, a kind that is missing, an Lsum that is not."""
    for name, scores in self_scores.items():
        for kind, value in scores.items():
            if not abs(value - 1) <= CLOSE:  # NaN is not 1 either
                yield f"{name} scores {value:.4g} in {kind} against itself, not 1"
    known = _values(score, ONE, ONE)
    for kind in KINDS[2:]:
        if kind not in known:
            yield f"there is no {kind}: L and Lsum are often swapped, so both are told"
    # by sentence the order of sentences does not matter; L keeps the longer of the two
    values = _swapped_sentences(score, "\n")
    longer, total = len(ONE.split()), len(f"{ONE} {OTHER}".split())
    same = " (it is rougeL)" if values["rougeL"] == values["rougeLsum"] else ""
    for kind, value, note in (("rougeLsum", 1.0, same), ("rougeL", longer / total, "")):
        if abs(values[kind] - value) > CLOSE:
            given = f"give {kind} {values[kind]:.4g}, not {value:.4g}{note}"
            yield f"two sentences in the other order, on two lines, {given}"


def _observed_variant(score: Score) -> dict[str, str]:
    """Stemmer, tokenizer and splitter as the scores show them."""
    stems = _values(score, *INFLECTED)["rouge1"]
    ascii_only = _values(score, *ACCENTED)["rouge1"]
    on_one_line = _swapped_sentences(score, ". ")
    by_sentence = on_one_line["rougeLsum"] > on_one_line["rougeL"]
    return {
        "stemmer": "porter" if abs(stems - 1) <= CLOSE else "none",
        "tokenizer": "ascii" if abs(ascii_only - 1) <= CLOSE else "unicode",
        "splitter": "sentence" if by_sentence else "newline",
    }


def _variant_problems(
    named: Mapping[str, Any] | None, shown: Mapping[str, str], texts: Sequence[str]
) -> Iterator[str]:
    """What is not named, or not what the scores show; an Lsum that measures line ends."""
    missing = [key for key in NAMED if key not in (named or {})]
    if named is None or missing:
        yield f"{', '.join(missing)} not named: another choice is another score"
    else:
        for key, plain in NAMED.items():
            told = "none" if named[key] in (None, False) else named[key]
            if (told == plain) != (shown[key] == plain):
                yield f"{key} is said to be {told!r}, the scores show {shown[key]!r}"
    count = sum(map(shares_a_line, texts)) if shown["splitter"] == "newline" else 0
    if count:
        yield (
            f"in {count} of {len(texts)} texts sentences share a line, so Lsum by newline measures "
            "line ends: split by sentence"
        )
