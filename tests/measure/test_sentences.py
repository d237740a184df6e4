"""Sentences by rule: where they end, where not, and that nothing is lost."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.measure.sentences import sentences
from attnlab.measure.words import has_non_ascii_letters, words

SPLIT = {
    "The cat sat. It slept.": ["The cat sat.", "It slept."],
    "Why? Because! And … Then": ["Why?", "Because!", "And …", "Then"],
    '"Ouch!" he said. "No."': ['"Ouch!" he said.', '"No."'],
    '(He left.) She stayed."  Well.': ["(He left.)", 'She stayed."', "Well."],
    "one line\nanother\r\n\n  third ": ["one line", "another", "third"],
    "It cost 3.50 pounds. 7 were left.": ["It cost 3.50 pounds.", "7 were left."],
    "Mr. Brown v. Board was long.": ["Mr. Brown v. Board was long."],
    "Case No. 7 was heard. No. The end.": ["Case No. 7 was heard.", "No.", "The end."],
    "J. K. Smith sued under 42 U.S.C. § 1983. He won.": [
        "J. K. Smith sued under 42 U.S.C. § 1983.",
        "He won.",
    ],
    "It came to the U.S. The court met in the U.S. District of D.C. on May 1.": [
        "It came to the U.S.",
        "The court met in the U.S. District of D.C. on May 1.",
    ],
    "Acme Inc. Holdings fell. So did Acme Inc. The rest rose.": [
        "Acme Inc. Holdings fell.",
        "So did Acme Inc.",
        "The rest rose.",
    ],
    "Wait... and see... The end": ["Wait... and see...", "The end"],
    "今日は。明日！はい": ["今日は。", "明日！", "はい"],
    "no stop at all": ["no stop at all"],
    " \n\t ": [],
    "": [],
}
PIECES = st.sampled_from(
    [
        "a",
        "B",
        "7",
        ".",
        "!",
        "?",
        "…",
        " ",
        "\n",
        "\t",
        '"',
        "”",
        "(",
        ")",
        "。",
        "Mr",
        "U.S",
        "No",
        "Inc",
        "The",
        "v",
        "é",
        "\u0301",
        "\x85",
        "\u2028",
        "'",
        "Ω",
    ]
)
TEXTS = st.lists(PIECES, max_size=31).map("".join) | st.text(max_size=53)


@pytest.mark.parametrize("text", SPLIT, ids=lambda text: repr(text[:30]))
def test_where_sentences_end(text: str) -> None:
    assert sentences(text) == SPLIT[text]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(TEXTS)
def test_nothing_is_lost_and_a_sentence_is_one(text: str) -> None:
    found = sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(s and s == s.strip() and "\n" not in s for s in found)
    assert all(sentences(s) == [s] for s in found)
    assert len(found) >= sum(bool(line.strip()) for line in text.split("\n"))


@pytest.mark.parametrize("unit", [".", ". ", ".'", "。", " .\t", "a.", "A. ", '" ', "Mr. "])
def test_linear_on_any_text(unit: str) -> None:
    """Ten times the text takes ten times as long, not a hundred; thirty leaves room for noise."""

    def seconds(count: int) -> float:
        text = unit * count
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            sentences(text)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(20_000) < 30 * max(seconds(2_000), 2e-4)


def test_words_of_any_script() -> None:
    assert words("Don't stop, Ζωή: 3½ नेपाली 東京!") == [
        "don",
        "t",
        "stop",
        "ζωή",
        "3½",
        "नेपाली",
        "東",
        "京",
    ]
    assert words("cafe\u0301 CAFÉ") == ["café", "café"]
    assert words("soft\u00adhyphen می\u200cخواهم ខ្មែរ\u200bភាសា a_b") == [
        "softhyphen",
        "میخواهم",
        "ខ្មែរ",
        "ភាសា",
        "a",
        "b",
    ]
    assert words("ひらカタ\ud800x") == ["ひ", "ら", "カ", "タ", "x"]
    assert words(" …§\n") == []


def test_foreign_letters_are_those_an_ascii_rule_drops() -> None:
    assert (
        has_non_ascii_letters("café") and has_non_ascii_letters("Ζ") and has_non_ascii_letters("٣")
    )
    assert not has_non_ascii_letters("plain £5 – “quoted” § 7…") and not has_non_ascii_letters("")
