"""Text: what follows a prompt, cut where it must be, and in pieces that make it up."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.decode.text import Stream, continuation, text_before


def as_bytes(ids: Sequence[int]) -> str:
    return bytes(ids).decode("utf-8", errors="replace")


def as_words(ids: Sequence[int]) -> str:
    """Words with spaces between, as decoders of whole words do: no space comes first."""
    return " ".join(f"w{i}" for i in ids)


def test_the_first_space_belongs_to_what_follows() -> None:
    assert continuation(as_words, [1, 2], [3, 4]) == " w3 w4"
    assert continuation(as_words, [1, 2], []) == ""
    half = "é".encode()[:1]
    assert continuation(as_bytes, list(b"caf" + half), list("é".encode()[1:])) == "\ufffd", (
        "a prompt that ends inside a character is not a beginning of the whole"
    )


def test_cut_before_the_first() -> None:
    assert text_before("one two three", ["three", "two"]) == "one "
    assert text_before("one", ["two"]) is None and text_before("one", []) is None
    assert text_before("one", ["one"]) == ""


@settings(derandomize=True, deadline=None)
@given(st.text(max_size=13), st.text(max_size=29))
def test_pieces_make_the_text_and_never_half_a_character(prompt: str, text: str) -> None:
    stream = Stream(as_bytes, list(prompt.encode()))
    pieces = [stream.piece(token) for token in text.encode()]
    pieces.append(stream.last(text))
    assert "".join(pieces) == text
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)


def test_bytes_that_are_no_text_come_at_the_end() -> None:
    stream = Stream(as_bytes, [65])
    pieces = [stream.piece(token) for token in (0xFF, 66, 0xC3)]
    assert pieces == ["", "\ufffdB", ""]
    assert stream.last(continuation(as_bytes, [65], [0xFF, 66, 0xC3])) == "\ufffd"


def test_a_shortened_text_adds_no_piece() -> None:
    stream = Stream(as_words, [])
    assert stream.piece(1) + stream.piece(2) == "w1 w2"
    assert stream.last("w1") == ""
