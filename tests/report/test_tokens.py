"""Every token leaves a trace, none acts on its neighbours, and text in bytes reads as text."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.report.tokens import cut, shown_tokens, visible


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("the", "the"),
        (" the", "␣the"),
        ("▁the", "␣the"),
        ("\n", "↵"),
        ("\r\n\t", "\\r↵⇥"),
        ("", "∅"),
        ("\0", "\\x00"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202eabc", "\\u202eabc"),
        ("a\u200fb", "a\\u200fb"),
        ("\xa0", "\\xa0"),
        ("\ud800", "\\ud800"),
        ("\u0301", "◌\u0301"),
        ("e\u0301", "e\u0301"),
        ("z" + "\u0301" * 7, "z" + "\u0301" * 4 + "…"),
        ("👩\u200d🚀", "👩\u200d🚀"),
        ("\u200da", "\\u200da"),
        ("<b>", "<b>"),
    ],
)
def test_what_cannot_be_seen_is_written(token: str, shown: str) -> None:
    assert visible(token) == shown


def test_a_name_keeps_its_spaces() -> None:
    assert visible("my model\n", spaces=False) == "my model↵"


@given(st.text(st.characters(codec=None), max_size=23))
def test_any_text_becomes_one_printable_line(text: str) -> None:
    shown = visible(text)
    assert shown
    assert all(c.isprintable() or c in "\u200c\u200d" for c in shown)
    assert " " not in shown
    assert unicodedata.category(shown[0]) not in ("Mn", "Me")
    shown.encode()


def test_byte_level_pieces_read_as_text() -> None:
    tokens = ["The", "Ġking", "ĠcafÃ©", "Ċ", "ĠðŁ", "ĺĢ", "<|endoftext|>"]
    wanted = ("The", "␣king", "␣café", "↵", "␣\\xf0\\x9f", "\\x98\\x80", "<|endoftext|>")
    assert shown_tokens(tokens) == wanted


@pytest.mark.parametrize(
    "tokens",
    [
        ["Ġorġ", "sar"],  # Maltese: as bytes there would be a control character
        ["Ċu", "vi", "parolas", "ŝi"],  # a letter that no byte has
        ["Ġa", " b"],  # a true space: not byte-level
        ["Ġa", "Ã"],  # half a character: no text
    ],
)
def test_letters_that_only_look_like_bytes_stay(tokens: list[str]) -> None:
    assert shown_tokens(tokens) == tuple(visible(token) for token in tokens)


@pytest.mark.parametrize(
    ("text", "short"), [("abc", "abc"), ("abcd", "ab…"), ("a\u200dbcd", "a…"), ("", "")]
)
def test_cut(text: str, short: str) -> None:
    assert cut(text, 3) == short
