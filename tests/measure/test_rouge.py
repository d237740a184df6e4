"""ROUGE by hand, against the package's own default, and what each part of a variant does."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import DefaultTokenizer

from attnlab.core.errors import UsageError
from attnlab.measure.rouge import (
    KINDS,
    SPLITTERS,
    TOKENIZERS,
    Rouge,
    Score,
    Scorer,
    Variant,
    difference,
    rouge,
    shares_a_line,
)

VARIANTS = [Variant(s, t, p) for s in (True, False) for t in TOKENIZERS for p in SPLITTERS]
PLAIN = Variant(stemmer=False)
WORDS = ["cat", "cats", "running", "runs", "ran", "the", "The", "happily", "7", "a.", "b!", "no?"]
ENGLISH = st.lists(st.sampled_from([*WORDS, "\n", "It"]), min_size=1, max_size=17).map(" ".join)
ASCII = st.text(st.characters(max_codepoint=127), max_size=43)


def scored(prediction: str, reference: str, variant: Variant = PLAIN) -> dict[str, Score]:
    return Scorer(variant)(prediction, reference)


def test_by_hand() -> None:
    # shared: the cat mat (clipped: one "the" of two); pairs: "the cat"; in order: the cat mat
    found = scored("the cat on a mat", "the cat, the mat")
    p, r = 3 / 5, 3 / 4
    assert found["rouge1"] == pytest.approx((p, r, 2 * p * r / (p + r)))
    assert found["rouge2"] == pytest.approx((1 / 4, 1 / 3, 2 / 7))
    assert found["rougeL"] == pytest.approx((p, r, 2 * p * r / (p + r)))
    assert found["rougeLsum"] == found["rougeL"]


def test_summary_level_by_hand() -> None:
    """Lin (2004), section 3.2: the union of w1 w2 and w1 w3 w5 holds 4 of 5 words."""
    found = scored("w1 w3 w8 w9 w5\nw1 w2 w6 w7 w8", "w1 w2 w3 w4 w5")
    assert found["rougeLsum"].recall == 4 / 5 and found["rougeLsum"].precision == 4 / 10
    assert found["rougeL"].recall == 3 / 5


def test_precision_is_of_the_prediction() -> None:
    found = scored("red", "red green blue")
    assert (found["rouge1"].precision, found["rouge1"].recall) == (1, pytest.approx(1 / 3))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(prediction=ENGLISH, reference=ENGLISH, stemmer=st.booleans())
def test_the_default_variant_is_the_package(prediction: str, reference: str, stemmer: bool) -> None:
    own = RougeScorer(list(KINDS), use_stemmer=stemmer).score(reference, prediction)
    assume(DefaultTokenizer(stemmer).tokenize(reference))
    found = scored(prediction, reference, Variant(stemmer=stemmer))
    assert {kind: tuple(score) for kind, score in found.items()} == {
        kind: tuple(score) for kind, score in own.items()
    }


@settings(max_examples=100, deadline=None, derandomize=True)
@given(prediction=ENGLISH | ASCII, reference=ENGLISH | ASCII, stemmer=st.booleans())
def test_on_ascii_text_the_tokenizers_agree(prediction: str, reference: str, stemmer: bool) -> None:
    assume(DefaultTokenizer(False).tokenize(reference))
    one, other = (scored(prediction, reference, Variant(stemmer, t)) for t in TOKENIZERS)
    assert one == other


@settings(max_examples=60, deadline=None, derandomize=True)
@given(text=ENGLISH | st.text(max_size=37), variant=st.sampled_from(VARIANTS))
def test_a_text_scores_one_against_itself(text: str, variant: Variant) -> None:
    two_words = text + " and more"
    assert all(set(score) == {1.0} for score in scored(two_words, two_words, variant).values())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(prediction=ENGLISH, reference=ENGLISH.map("x {}".format), variant=st.sampled_from(VARIANTS))
def test_bounds_and_symmetry(prediction: str, reference: str, variant: Variant) -> None:
    there, back = (
        scored(*pair, variant)
        for pair in ((f"y {prediction}", reference), (reference, f"y {prediction}"))
    )
    for kind, (p, r, f) in there.items():
        assert 0 <= min(p, r) <= f + 1e-12 and f <= max(p, r) + 1e-12 and max(p, r) <= 1
        assert f <= there["rouge1"].f + 1e-12
        if kind != "rougeLsum":  # a union over the prediction's sentences is not symmetric
            assert back[kind][:2] == pytest.approx((r, p))


def test_line_ends_move_lsum_and_nothing_else() -> None:
    reference, prediction = "The cat sat. Many dogs ran home.", "Many dogs ran home. The cat sat."
    lines = (prediction.replace(". ", ".\n"), reference.replace(". ", ".\n"))
    flat, split = scored(prediction, reference), scored(*lines)
    assert flat["rougeLsum"] == flat["rougeL"] == split["rougeL"]
    assert flat["rougeL"].f == pytest.approx(4 / 7) and split["rougeLsum"].f == 1
    by_sentence = Variant(stemmer=False, splitter="sentence")
    for pair in ((prediction, reference), lines, (prediction, lines[1])):
        assert scored(*pair, by_sentence) == split


def test_the_stemmer_and_the_tokenizer_do_what_they_say() -> None:
    assert scored("he was running", "he was runs", Variant())["rouge1"].f == 1
    assert scored("he was running", "he was runs")["rouge1"].f == pytest.approx(2 / 3)
    accents = ("une pêche", "une pâche")
    assert scored(*accents)["rouge1"].f == 1  # "p che" and "p che"
    assert scored(*accents, Variant(tokenizer="unicode"))["rouge1"].f == 1 / 2
    greek = "Η γάτα κάθισε"
    assert scored(greek, greek, Variant(tokenizer="unicode"))["rouge2"].f == 1


def test_what_cannot_be_scored_is_refused() -> None:
    with pytest.raises(UsageError, match="a-z and 0-9: use tokenizer unicode"):
        scored("η γάτα", "η γάτα")
    with pytest.raises(UsageError, match=r"'\?!' has no word$"):
        scored("a", "?!", Variant(tokenizer="unicode"))
    with pytest.raises(UsageError, match="item 2: the reference ''"):
        rouge(["a", "b"], ["a", ""])
    with pytest.raises(UsageError, match="1 predictions for 2 references"):
        rouge(["a"], ["a", "b"])
    with pytest.raises(UsageError, match="no texts"):
        rouge([], [])
    with pytest.raises(UsageError, match="did you mean 'sentence'"):
        Variant(splitter="sentences")
    with pytest.raises(UsageError, match="did you mean 'unicode'"):
        Variant(tokenizer="unicod")


def items(n: int, off: int = 0) -> Rouge:
    """Item i shares i % 5 + off of 7 words with its reference."""
    rng = np.random.default_rng(3)
    words = [f"w{i}" for i in range(7)]
    kept = [int(rng.integers(0, 5)) + off for _ in range(n)]
    said = [" ".join(words[:k] + [f"x{i}" for i in range(7 - k)]) for k in kept]
    return rouge(said, [" ".join(words)] * n, PLAIN)


def test_means_and_intervals_over_items() -> None:
    found = items(101)
    e = found.estimate("rouge1")
    assert (e.n, e.method) == (101, "bootstrap over items, 95 %")
    assert e.value == pytest.approx(found.column("rouge1").mean())
    # a bootstrap's percentiles are those of a normal with sd s/√n, up to 10 % at n = 101
    half = 1.96 * found.column("rouge1").std(ddof=1) / np.sqrt(101)
    assert e.half_width == pytest.approx(half, rel=0.1)
    assert e == found.estimate("rouge1")  # its own generator: no other draw moves it
    assert found.estimate("rouge1", seed=1).low != e.low


def test_few_items_have_a_t_interval_within_what_a_score_can_be() -> None:
    found = rouge(["a b", "c d", "x y"], ["a b", "p q", "r s"], PLAIN)
    e = found.estimate("rouge1")
    assert e.method == "t interval over items, 95 %" and (e.low, e.high) == (0.0, 1.0)
    assert not rouge(["a b"], ["a c"], PLAIN).estimate("rouge1").has_interval


def test_paired_difference_of_two_systems() -> None:
    one, other = items(101, off=1), items(101)
    gap = difference(one, other)
    assert gap["rouge1"].method == "paired bootstrap over items, 95 %"
    # every item gains one word of seven: no spread, though the items themselves differ
    assert [gap["rouge1"].low, gap["rouge1"].high] == pytest.approx([1 / 7, 1 / 7])
    assert gap["rouge2"].low <= gap["rouge2"].value <= gap["rouge2"].high
    few = difference(items(7, off=1), items(7))["rouge1"]
    assert few.method == "paired t interval over items, 95 %"
    with pytest.raises(UsageError, match="not comparable"):
        difference(one, rouge(["a"] * 101, ["a"] * 101, Variant()))
    with pytest.raises(UsageError, match="101 and 97"):
        difference(one, items(97))


def test_remarks_and_document() -> None:
    texts = ["The cat sat. It slept.", "Ein Mädchen", "plain words here"]
    found = rouge(["The cat. It ran.", "", "plain words"], texts)
    assert (found.empty, found.dropped, found.unsplit) == (1, 1, 1)
    assert [said.split()[0] for said in found.remarks()] == ["1", "1", "1"]
    clean = rouge(texts, texts, Variant(tokenizer="unicode", splitter="sentence"))
    assert clean.remarks() == []
    document = found.as_json()
    assert document["variant"] == {
        "package": "rouge-score 0.1.2",
        "stemmer": "porter",
        "tokenizer": "ascii",
        "splitter": "newline",
    }
    assert set(document["scores"]) == set(document["items"]) == set(KINDS)
    assert document["items"]["rouge1"][1] == 0 and document["n"] == 3
    assert "stemmer porter, tokenizer ascii, Lsum by newline" in str(found.variant)


def test_sentences_that_share_a_line() -> None:
    assert shares_a_line("One. Two.") and shares_a_line("One.\nTwo. Three.")
    assert not shares_a_line("One.\n\nTwo.\n") and not shares_a_line("")
