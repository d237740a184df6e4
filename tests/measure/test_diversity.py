"""Diversity by hand, against slow definitions, and self-BLEU against nltk's BLEU."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

from attnlab.measure.diversity import (
    distinct_n,
    diversity,
    entropy,
    longest_loop,
    longest_repeat,
    ngrams,
    repetition_rate,
    self_bleu,
)

TEXT = st.lists(st.integers(0, 4), max_size=17)
FULL = st.lists(st.integers(0, 4), min_size=5, max_size=17)


def slow_bleu(text: list[int], others: list[list[int]], n: int) -> float:
    """The definition, counted afresh for every text."""
    c = len(text)
    if c == 0:
        return 0.0
    r = min((abs(len(o) - c), len(o)) for o in others)[1]
    product = 1.0
    for k in range(1, n + 1):
        own = [tuple(text[i : i + k]) for i in range(c - k + 1)]
        matched = 0.0
        for gram in set(own):
            most = max(
                sum(tuple(o[i : i + k]) == gram for i in range(len(o) - k + 1)) for o in others
            )
            matched += min(own.count(gram), most)
        if matched == 0 and k == 1:
            return 0.0
        product *= (matched or 0.1) / max(1, len(own))
    return min(1.0, math.exp(1 - r / c)) * product ** (1 / n)


def test_by_hand() -> None:
    texts = [list("abab"), list("abc")]
    assert distinct_n(texts, 1) == 3 / 7 and distinct_n(texts, 2) == 3 / 5  # ab ba ab | ab bc
    assert repetition_rate(list("abab"), 2) == pytest.approx(1 / 3)
    p = np.array([3, 3, 1]) / 7
    assert entropy(texts) == pytest.approx(-(p * np.log(p)).sum())
    assert entropy([[7] * 5]) == 0
    assert list(ngrams("abc", 2)) == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize(
    ("text", "loop", "repeat"),
    [
        ("", 0, 0),
        ("a", 0, 0),
        ("abc", 0, 0),
        ("abca", 0, 1),
        ("aa", 2, 1),
        ("aaaaa", 5, 4),
        ("xababay", 5, 3),
        ("abcxabc", 0, 3),
        ("abcabc", 6, 3),
        ("aabcdbcd", 6, 3),
    ],
)
def test_loops_and_repeats_by_hand(text: str, loop: int, repeat: int) -> None:
    assert (longest_loop(text), longest_repeat(text)) == (loop, repeat)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(TEXT)
def test_loops_and_repeats_are_what_a_search_finds(tokens: list[int]) -> None:
    stretches = [(i, j) for i in range(len(tokens)) for j in range(i + 1, len(tokens) + 1)]
    looped = [
        j - i
        for i, j in stretches
        if any(tokens[i + p : j] == tokens[i : j - p] for p in range(1, (j - i) // 2 + 1))
    ]
    assert longest_loop(tokens) == max(looped, default=0)
    seen: dict[tuple[int, ...], int] = {}
    for i, j in stretches:
        seen[tuple(tokens[i:j])] = seen.get(tuple(tokens[i:j]), 0) + 1
    assert longest_repeat(tokens) == max((len(s) for s, c in seen.items() if c > 1), default=0)
    assert longest_repeat(tokens) >= longest_loop(tokens) / 2


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(TEXT, min_size=2, max_size=5), st.integers(1, 4))
def test_self_bleu_is_its_definition(texts: list[list[int]], n: int) -> None:
    slow = [slow_bleu(text, texts[:i] + texts[i + 1 :], n) for i, text in enumerate(texts)]
    # n logarithms and one exponential, each within a few units of the last place
    assert self_bleu(texts, n) == pytest.approx(slow, rel=1e-13, abs=1e-15)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(FULL, min_size=2, max_size=5), st.integers(2, 4))
def test_self_bleu_is_nltks_bleu_with_its_first_smoothing(texts: list[list[int]], n: int) -> None:
    smooth = SmoothingFunction().method1
    theirs = [
        sentence_bleu(texts[:i] + texts[i + 1 :], text, [1 / n] * n, smoothing_function=smooth)
        for i, text in enumerate(texts)
    ]
    assert self_bleu(texts, n) == pytest.approx(theirs, rel=1e-12)


def test_self_bleu_at_its_ends() -> None:
    same = [list("abcde")] * 3
    assert self_bleu(same) == pytest.approx([1, 1, 1])
    assert self_bleu([list("abcd"), list("efgh")]).tolist() == [0, 0]
    with pytest.raises(ValueError, match="two texts"):
        self_bleu([[1, 2]])


def test_a_copying_sampler_is_told_from_a_varied_one() -> None:
    rng = np.random.default_rng(7)
    varied = [rng.integers(0, 101, 47).tolist() for _ in range(11)]
    copies = [varied[0][:23] + rng.integers(0, 101, 24).tolist() for _ in range(11)]
    stuck = [(text[:5] + text[5:8] * 14) for text in varied]
    told = {
        name: diversity(texts)
        for name, texts in {"varied": varied, "copies": copies, "stuck": stuck}.items()
    }
    assert told["copies"]["self_bleu_4"] > 0.3 > told["varied"]["self_bleu_4"]
    assert told["stuck"]["repetition_4"] > 0.7 > 0.1 > told["varied"]["repetition_4"]
    assert told["stuck"]["longest_loop"] >= 42 > told["varied"]["longest_loop"]
    assert told["varied"]["distinct_2"] > told["copies"]["distinct_2"] > told["stuck"]["distinct_2"]
    assert told["varied"]["entropy"] > told["stuck"]["entropy"]
    assert told["varied"]["tokens"] == told["stuck"]["tokens"] == 47


def test_what_does_not_exist_is_nan() -> None:
    assert math.isnan(distinct_n([[1], []], 2)) and math.isnan(entropy([]))
    assert math.isnan(repetition_rate([1, 2, 3]))
    one = diversity([[1, 2, 3, 4, 5]])
    assert math.isnan(one["self_bleu_4"]) and one["repetition_4"] == 0
    assert math.isnan(diversity([])["tokens"])
    with pytest.raises(ValueError, match="at least 1"):
        distinct_n([[1]], 0)
