"""Encoding and decoding: exact for char and bpe; no text produces a special token."""

import time

import numpy as np
import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.tasks import tokenizer as module
from attnlab.tasks.tokenizer import SPECIAL_TOKENS, Tokenizer, train_tokenizer

TEXT = "To be, or not to be: that is the question.\nWhether 'tis nobler -- to be!\n" * 3
KINDS = ("word", "char", "bpe")
anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return train_tokenizer(request.param, [TEXT])


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return train_tokenizer("bpe", [TEXT])


@given(anything.filter(bool))
@example("<START>a<STOP><UNK>")
@example("\r\n \t\x0b\x1f\u2028\u00a0")
@example("e\u0301 \U0001f468\u200d\U0001f469 \ufeff")
@settings(max_examples=150, derandomize=True, deadline=None)
def test_characters_round_trip(text: str) -> None:
    found = train_tokenizer("char", [text])
    ids = found.encode(text)
    assert found.decode(ids) == text
    assert len(ids) == len(text) and found.unknown not in ids
    assert found.size == len(SPECIAL_TOKENS) + len(set(text))


@given(text=anything)
@example(text="<START>a<STOP><UNK>")
@example(text="a" * 97 + "\n" * 23 + "1234567890" + "." * 19)
@settings(max_examples=300, derandomize=True, deadline=None)
def test_byte_pairs_round_trip_on_text_they_never_saw(bpe: Tokenizer, text: str) -> None:
    ids = bpe.encode(text)
    assert bpe.decode(ids) == text
    assert not {bpe.start, bpe.stop, bpe.unknown} & set(ids)


@given(st.lists(st.sampled_from(["to", "be", "or", ",", ".", "!", "--", "question", ":"])))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_words_round_trip_up_to_white_space(words: list[str]) -> None:
    found = train_tokenizer("word", [TEXT])
    ids = found.encode(" ".join(words))
    assert found.tokens(ids) == words
    assert found.encode(found.decode(ids)) == ids


def test_words_are_written_as_one_writes() -> None:
    found = train_tokenizer("word", [TEXT])
    assert found.decode(found.row("to be ,or not : zounds , the question !")) == (
        "to be, or not: <UNK>, the question!"
    )


def test_what_counts_as_a_word() -> None:
    text = "the king's to-morrow.--Stand, 'tis (naïve) x_1 3.14 e\u0301tude…"
    found = train_tokenizer("word", [text])
    assert found.tokens(found.encode(text)) == [
        "the",
        "king's",
        "to-morrow",
        ".",
        "--",
        "Stand",
        ",",
        "'",
        "tis",
        "(",
        "naïve",
        ")",
        "x_1",
        "3",
        ".",
        "14",
        "e\u0301tude",
        "…",
    ]


def test_rare_words_are_unknown() -> None:
    found = train_tokenizer("word", ["a a a b b c"], min_count=2)
    assert found.size == len(SPECIAL_TOKENS) + 2
    assert found.tokens(found.encode("a b c d")) == ["a", "b", "<UNK>", "<UNK>"]
    assert found.encode("c") == [found.unknown]


def test_the_vocabulary_holds_the_most_frequent_and_ties_go_by_the_alphabet() -> None:
    found = train_tokenizer("word", ["d d c b a e e e"], vocabulary=len(SPECIAL_TOKENS) + 3)
    assert found.tokens(range(found.size)) == [*SPECIAL_TOKENS, "e", "d", "a"]
    assert train_tokenizer("bpe", [TEXT], vocabulary=269).size == 269


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_free_of_the_order_of_documents(kind: str) -> None:
    lines = TEXT.split("\n") * 3
    one = train_tokenizer(kind, lines, min_count=2)
    other = train_tokenizer(kind, sorted(lines, reverse=True), min_count=2)
    assert one.to_json() == other.to_json()


def test_markers(tokenizer: Tokenizer) -> None:
    assert tokenizer.tokens([tokenizer.start, tokenizer.stop, tokenizer.unknown]) == list(
        SPECIAL_TOKENS
    )
    text = "<START> to be <STOP> <UNK>"
    ids = tokenizer.encode(text)
    assert tokenizer.start not in ids and tokenizer.stop not in ids
    assert tokenizer.row(text) == [tokenizer.start, *ids, tokenizer.stop]
    assert tokenizer.decode(tokenizer.row("to be")) == "to be"
    assert tokenizer.pad not in tokenizer.encode(TEXT)


def test_rows_and_stream_are_the_rows(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*TEXT.split("\n"), "", "<STOP>"]
    expected = [tokenizer.row(line) for line in lines]
    monkeypatch.setattr(module, "MAX_TEXTS_PER_CALL", 3)
    assert [row.tolist() for row in tokenizer.rows(lines)] == expected
    assert tokenizer.stream(lines).tolist() == [i for row in expected for i in row]
    assert tokenizer.stream([]).dtype == np.int32 == tokenizer.rows(["to"])[0].dtype
    assert len(tokenizer.stream([])) == 0


@pytest.mark.parametrize("size", [11, 23])
def test_a_long_text_is_cut_where_it_shows_in_no_id(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    whole, stream = tokenizer.encode(TEXT), tokenizer.stream([TEXT])
    monkeypatch.setattr(module, "MAX_CHARACTERS_PER_CALL", 2 * size)
    assert tokenizer.encode(TEXT) == whole
    assert np.array_equal(tokenizer.stream([TEXT]), stream)


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_a_text_without_a_place_to_cut_still_round_trips(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbroken = "".join(TEXT.split())
    found = train_tokenizer(kind, [unbroken])
    monkeypatch.setattr(module, "MAX_CHARACTERS_PER_CALL", 13)
    assert found.decode(found.encode(unbroken)) == unbroken


def test_json_round_trip(tokenizer: Tokenizer) -> None:
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.to_json() == tokenizer.to_json() and again.size == tokenizer.size
    text = TEXT + "<STOP> Ω"
    assert again.encode(text) == tokenizer.encode(text)
    plain = tokenizers.Tokenizer.from_str(tokenizer.to_json())  # what other programs read
    assert plain.encode(TEXT).ids == [tokenizer.start, *tokenizer.encode(TEXT)]


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"version": "1.0"}', "\0"])
def test_json_that_is_no_tokenizer(text: str) -> None:
    with pytest.raises(IntegrityError, match="not a tokenizer"):
        Tokenizer.from_json(text)


def test_a_tokenizer_without_our_markers_is_refused() -> None:
    other = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    with pytest.raises(IntegrityError, match="<START>"):
        Tokenizer.from_json(other.to_str())


def test_what_cannot_be_trained() -> None:
    with pytest.raises(UsageError, match="did you mean 'word'"):
        train_tokenizer("words", [TEXT])
    with pytest.raises(UsageError, match="min_count"):
        train_tokenizer("word", [TEXT], min_count=0)
    with pytest.raises(UsageError, match="at least 259"):
        train_tokenizer("bpe", [TEXT], vocabulary=100)
    with pytest.raises(UsageError, match="no word occurs 10 times"):
        train_tokenizer("word", [TEXT], min_count=10)
    with pytest.raises(UsageError, match="no char occurs 1 times"):
        train_tokenizer("char", [])


def test_what_cannot_be_encoded_or_decoded(tokenizer: Tokenizer) -> None:
    for bad in ("\udcff", "ok \ud800"):
        with pytest.raises(UsageError, match="not Unicode at character"):
            tokenizer.encode(bad)
        with pytest.raises(UsageError, match="not Unicode"):
            tokenizer.rows([bad])
        with pytest.raises(UsageError, match="not Unicode"):
            train_tokenizer("char", [bad])
    for wrong in (-1, tokenizer.size):
        with pytest.raises(UsageError, match="token ids must lie in"):
            tokenizer.decode([wrong])


@pytest.mark.parametrize("kind", KINDS)
def test_one_endless_line_takes_linear_time(kind: str) -> None:
    letters = np.random.default_rng(3).integers(ord("a"), ord("i"), 400_009, dtype=np.uint8)
    line = letters.tobytes().decode()
    started = time.perf_counter()
    found = train_tokenizer(kind, [line], vocabulary=1009)
    ids = found.encode(line)
    assert time.perf_counter() - started < 20  # one word of this length takes minutes to merge
    assert found.decode(ids) == line


def test_unknown_pieces_are_told_in_order() -> None:
    char = train_tokenizer("char", ["the king"])
    assert char.unknown_pieces("the €king€ ∑") == ["€", "€", "∑"]
    assert char.unknown_pieces("the king") == []
    word = train_tokenizer("word", ["the king"])
    assert word.unknown_pieces("the königin king") == ["königin"]
    assert train_tokenizer("bpe", ["the king"]).unknown_pieces("€") == []
