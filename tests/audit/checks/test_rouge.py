"""rouge: silent on every named variant; fires on each planted fault."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from rouge_score.rouge_scorer import RougeScorer

from attnlab.audit.checks.rouge import NAME, rouge
from attnlab.measure.rouge import KINDS, SPLITTERS, TOKENIZERS, Scorer, Variant

NAMED = {"stemmer": "porter", "tokenizer": "unicode", "splitter": "sentence"}
CLEAN = Variant(tokenizer="unicode", splitter="sentence")
Values = dict[str, float]


def values(prediction: str, reference: str, variant: Variant = CLEAN) -> Values:
    return {kind: score.f for kind, score in Scorer(variant)(prediction, reference).items()}


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("stemmer", [True, False])
def test_the_clean_twins_pass(stemmer: bool, tokenizer: str, splitter: str) -> None:
    found = rouge(Scorer(Variant(stemmer, tokenizer, splitter)))
    assert (found.name, found.verdict, found.number, found.threshold) == (NAME, "pass", 1.0, 1.0)
    named = {"stemmer": "porter" if stemmer else "none", "tokenizer": tokenizer}
    assert found.evidence["shown"] == named | {"splitter": splitter}
    assert found.evidence["refused"] == (
        ["Greek", "Devanagari", "Han"] if tokenizer == "ascii" else []
    )


def test_numbers_and_other_names_are_understood() -> None:
    assert rouge(values, NAMED).verdict == "pass"
    told = {"stemmer": True, "tokenizer": "letters of any script", "splitter": "punkt"}
    assert rouge(values, told).verdict == "pass"
    off = Variant(stemmer=False, tokenizer="unicode")
    quiet = {"stemmer": False, "tokenizer": "unicode", "splitter": "newline"}
    assert rouge(lambda p, r: values(p, r, off), quiet).verdict == "pass"


def brevity(prediction: str, reference: str) -> Values:
    """A self-score below 1: a factor nobody asked for."""
    return {kind: 0.99 * value for kind, value in values(prediction, reference).items()}


def per_cent(prediction: str, reference: str) -> Values:
    return {kind: 100 * value for kind, value in values(prediction, reference).items()}


def l_for_lsum(prediction: str, reference: str) -> Values:
    found = values(prediction, reference)
    return {**found, "rougeLsum": found["rougeL"]}


def lsum_for_l(prediction: str, reference: str) -> Values:
    found = values(prediction, reference)
    return {**found, "rougeL": found["rougeLsum"]}


def without_lsum(prediction: str, reference: str) -> Values:
    found = values(prediction, reference)
    return {kind: found[kind] for kind in KINDS[:3]}


def drops_letters(prediction: str, reference: str) -> Mapping[str, Any]:
    """The package as it comes: Greek against itself is 0, and nobody says so."""
    return RougeScorer(list(KINDS), use_stemmer=True).score(reference, prediction)


def blind_to_accents(prediction: str, reference: str) -> Values:
    """Letters outside ASCII are deleted, but not where nothing would be left."""
    stripped = [text.encode("ascii", "ignore").decode() for text in (prediction, reference)]
    if all(text.strip() for text in stripped):
        return values(stripped[0], stripped[1])
    return values(prediction, reference)


CALLS = iter(range(10**6))


def moody(prediction: str, reference: str) -> Values:
    """A bootstrap's middle instead of the mean: 1 against itself, else another number each time."""
    found = values(prediction, reference)
    return {k: v if v in (0, 1) else v + 1e-5 * next(CALLS) for k, v in found.items()}


FAULTS: dict[str, tuple[Callable[[str, str], Mapping[str, Any]], str]] = {
    "self-score below 1": (brevity, "scores 0.99 in rouge1 against itself, not 1"),
    "per cent": (per_cent, "scores 100 in rouge1 against itself"),
    "L computed for Lsum": (l_for_lsum, "give rougeLsum 0.5556, not 1 (it is rougeL)"),
    "Lsum computed for L": (lsum_for_l, "give rougeL 1, not 0.5556"),
    "no Lsum": (without_lsum, "there is no rougeLsum"),
    "non-ASCII dropped": (drops_letters, "Greek scores 0 in rouge1 against itself"),
    "accents dropped": (blind_to_accents, "tokenizer is said to be 'unicode', the scores show"),
    "another number each time": (moody, "differently when asked again"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str) -> None:
    score, word = FAULTS[fault]
    found = rouge(score, NAMED)
    assert found.verdict == "fail"
    assert any(word in problem for problem in found.evidence["problems"]), found.evidence


@pytest.mark.parametrize("missing", NAMED)
def test_a_variant_that_is_not_named_is_caught(missing: str) -> None:
    named = {key: value for key, value in NAMED.items() if key != missing}
    found = rouge(values, named)
    assert found.verdict == "fail"
    assert found.why == f"{missing} not named: another choice is another score"
    assert "stemmer, tokenizer, splitter not named" in rouge(values).why


@pytest.mark.parametrize(
    ("key", "said"), [("stemmer", "none"), ("tokenizer", "ascii"), ("splitter", "newline")]
)
def test_a_variant_that_is_not_what_it_says_is_caught(key: str, said: str) -> None:
    found = rouge(values, NAMED | {key: said})
    assert found.verdict == "fail"
    assert found.why == f"{key} is said to be {said!r}, the scores show {NAMED[key]!r}"


def test_texts_of_ones_own() -> None:
    texts = ["The cat sat. It slept.", "One line only", "", "word"]
    found = rouge(Scorer(Variant()), texts=texts)
    assert found.verdict == "fail" and "in 1 of 4 texts sentences share a line" in found.why
    assert rouge(Scorer(Variant(splitter="sentence")), texts=texts).verdict == "pass"
    lines = [text.replace(". ", ".\n") for text in texts]
    assert rouge(Scorer(Variant()), texts=lines).verdict == "pass"
    nepali = rouge(Scorer(Variant()), texts=["नेपाली भाषा"])
    assert nepali.verdict == "pass" and "text 1 refused, not scored" in nepali.why


def test_what_cannot_be_judged_is_no_pass() -> None:
    found = rouge(lambda p, r: {"bleu": 1.0}, NAMED)
    assert found.verdict == "not-applicable" and "no rouge1 among bleu" in found.why
