"""Any text gives a valid split or a one-line error; splits do not depend on the order."""

import math
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnlab.core.errors import UsageError
from attnlab.tasks import corpus as module
from attnlab.tasks.corpus import Corpus, collapse_whitespace, read_text, split_sentences

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
documents = st.lists(texts.filter(lambda t: t.strip()), min_size=2, max_size=23).filter(
    lambda found: len({collapse_whitespace(d) for d in found}) > 1
)
fractions = st.sampled_from([(0.1, 0.1), (0.5, 0.3), (0.01, 0.0), (0.3, 0.01), (0.9, 0.09)])


def numbered(count: int) -> tuple[str, ...]:
    return tuple(f"document number {i}" for i in range(count))


@given(documents, fractions, st.randoms(use_true_random=False))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_splits_are_a_partition_and_free_of_order(
    found: list[str], shares: tuple[float, float], random: Random
) -> None:
    dev, test = shares
    splits = Corpus(tuple(found)).split(dev, test)
    assert Counter(d for part in splits.parts for d in part) == Counter(found)
    contents = [{collapse_whitespace(d) for d in part} for part in splits.parts]
    assert not (contents[0] & contents[1] or contents[0] & contents[2] or contents[1] & contents[2])
    assert splits.train and splits.dev
    assert bool(splits.test) == (test > 0 and len({collapse_whitespace(d) for d in found}) > 2)
    shuffled = list(found)
    random.shuffle(shuffled)
    again = Corpus(tuple(shuffled)).split(dev, test)
    assert [Counter(part) for part in again.parts] == [Counter(part) for part in splits.parts]


def test_within_a_split_documents_keep_their_order() -> None:
    for part in Corpus(numbered(53)).split().parts:
        assert list(part) == sorted(part, key=lambda d: int(d.split()[-1]))


def test_copies_stay_together_whatever_their_white_space() -> None:
    twins = [d.replace(" ", "\n  ") + "\t" for d in numbered(101)]
    splits = Corpus((*numbered(101), *twins)).split(0.3, 0.3)
    for part in splits.parts:
        assert set(Counter(collapse_whitespace(d) for d in part).values()) == {2}


def test_a_document_added_later_moves_no_other() -> None:
    before, after = Corpus(numbered(101)).split(), Corpus((*numbered(103), "other")).split()
    for old, new in zip(before.parts, after.parts, strict=True):
        assert set(old) <= set(new)


def test_shares_are_those_asked_for() -> None:
    count = 2003
    splits = Corpus(numbered(count)).split(0.2, 0.07)
    for part, share in zip(splits.parts, (0.73, 0.2, 0.07), strict=True):
        assert abs(len(part) - share * count) < 4 * math.sqrt(count * share * (1 - share))


def test_a_split_left_empty_takes_the_document_nearest_to_it() -> None:
    three = Corpus(numbered(3))
    places = {d: module.hash_fraction(d) for d in three.documents}
    splits = three.split(1e-9, 1e-9)  # the hash alone would give all three to train
    assert splits.dev == (min(places, key=lambda d: places[d]),)
    assert all(len(part) == 1 for part in splits.parts)


def test_map_changes_documents_and_not_their_split() -> None:
    splits = Corpus(numbered(31)).split()
    assert splits.map(str.upper).dev == tuple(d.upper() for d in splits.dev)


@pytest.mark.parametrize("dev, test", [(0, 0.1), (0.1, -0.1), (0.5, 0.5), (math.nan, 0.1), (2, 0)])
def test_shares_that_make_no_sense(dev: float, test: float) -> None:
    with pytest.raises(UsageError, match="dev \\+ test < 1"):
        Corpus(numbered(7)).split(dev, test)


def test_copies_of_one_document_cannot_be_split() -> None:
    with pytest.raises(UsageError, match="one document only"):
        Corpus(("same", "same ", "same")).split()


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "empty"),
        (b" \n\t\r\n ", "empty"),
        (b"\xef\xbb\xbf\n", "empty"),
        (b"good\nbad \xff\n", r"not UTF-8 text \(byte 9 is 0xff\)"),
        ("utf-16".encode("utf-16"), "not UTF-8 text"),
        (b"cut off \xe2\x82", "not UTF-8 text"),
        (b"\xed\xa0\x80 lone surrogate\n", "not UTF-8 text"),
        (b"one\ntwo\0\n", r"a NUL at character 7"),
        (b"only one sentence", "one sentence only"),
        (b"same\nsame\nsame", "one sentence only"),
        (b"x" * 3_000_000, "one sentence only"),
    ],
)
def test_files_that_cannot_be_used_say_why_in_one_line(
    tmp_path: Path, data: bytes, message: str
) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=message) as caught:
        Corpus.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("a b\nc\n\nd\n \t\ne\n\n\n\n", ("a b\nc", "d", "e")),
        ("a\nb\n\nc\n", ("a", "b", "c")),  # two paragraphs only: lines
        ("a\n\nb\n", ("a", "b")),
        ("One. Two! Three?", ("One.", "Two!", "Three?")),
        ("One. Two!", ("One.", "Two!")),
        ("a\r\n\r\nb\r\n\r\nc", ("a", "b", "c")),
        ("a\rb\rc", ("a", "b", "c")),
        ("\ufeffa\nb\nc", ("a", "b", "c")),
        ("a\u2028b\nc\nd", ("a\u2028b", "c", "d")),
    ],
)
def test_one_file_is_paragraphs_else_lines_else_sentences(
    tmp_path: Path, text: str, expected: tuple[str, ...]
) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(text.encode())
    assert Corpus.read(path).documents == expected


def test_a_huge_line_of_sentences_is_read(tmp_path: Path) -> None:
    path = tmp_path / "line.txt"
    path.write_text("".join(f"This is sentence {i}. " for i in range(50_021)), encoding="utf-8")
    assert len(Corpus.read(path).documents) == 50_021


def test_a_folder_is_its_text_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, text in {
        "b.txt": "two",
        "in/a.txt": "one\n\nmore",
        "c.md": "no",
        "d.txt": " ",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert Corpus.read(tmp_path).documents == ("two", "one\n\nmore")
    (tmp_path / "b.txt").unlink()
    assert Corpus.read(tmp_path).documents == ("one", "more")  # one file left: its pieces


def test_a_folder_without_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \.txt file"):
        Corpus.read(tmp_path)
    (tmp_path / "a.txt").write_text("", encoding="utf-8")
    with pytest.raises(UsageError, match=r"1 \.txt files, all empty"):
        Corpus.read(tmp_path)


def test_paths_that_are_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, message in [
        (tmp_path / "none.txt", "no such file"),
        (Path("/dev/zero"), "not a file"),
        (Path("nul\0name"), "no such file|null"),
        (tmp_path / "loop", "no such file|symbolic"),
        (tmp_path / ("x" * 300), "no such file|too long"),
    ]:
        with pytest.raises(UsageError, match=message):
            Corpus.read(path)
    path = tmp_path / "large.txt"
    path.write_text("a\nb\nc\n", encoding="utf-8")
    monkeypatch.setattr(module, "TEXT_LIMIT", 5)
    with pytest.raises(UsageError, match="larger than 5 bytes"):
        read_text(path)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("To be. Or not?", ["To be.", "Or not?"]),
        ("O, what!\nA rogue", ["O, what!", "A rogue"]),
        ("Ay me! what news?  None.", ["Ay me! what news?", "None."]),
        ("I hear them.--Stand, ho! Who?", ["I hear them.--", "Stand, ho!", "Who?"]),
        ("He said 'Come.' Then went.", ["He said 'Come.'", "Then went."]),
        ("Mr. A and M. Antony at St. Alban. Go.", ["Mr. A and M. Antony at St. Alban.", "Go."]),
        ("It is I. Come.", ["It is I.", "Come."]),
        ("Version 3.14 is out. 2 is not.", ["Version 3.14 is out.", "2 is not."]),
        ("Title\n\nText goes on... and on", ["Title", "Text goes on... and on"]),
        ("Ay! 'tis so. 'Tis not.", ["Ay! 'tis so.", "'Tis not."]),
        ("你好。再见！", ["你好。", "再见！"]),
        ("", []),
        (" \n\n ", []),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert split_sentences(text) == expected


@given(st.text(st.sampled_from("aA.!?-'\" \n…。M\t)"), max_size=60))
@example("\x1f.\x1f\n")
@settings(max_examples=300, derandomize=True, deadline=None)
def test_sentences_lose_nothing_but_white_space(text: str) -> None:
    found = split_sentences(text)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(s == s.strip() and s for s in found)


@pytest.mark.parametrize(
    "text",
    ["." * 2_000_000 + "a", "A. " * 500_000, "a. " * 500_000, "\n" * 2_000_000, ".'" * 10**6],
)
def test_sentences_take_linear_time(text: str) -> None:
    started = time.perf_counter()
    split_sentences(text)
    assert time.perf_counter() - started < 20  # a square of the length would be hours


@given(texts)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_pieces_of_any_text_can_be_split_or_say_why(text: str) -> None:
    try:
        found = Corpus.from_text(text)
    except UsageError:
        assert len({collapse_whitespace(s) for s in split_sentences(text)}) < 2
        return
    assert "".join("".join(found.documents).split()) == "".join(text.split())
    splits = found.split()
    assert splits.train and splits.dev


@given(st.lists(st.integers(0, 40), min_size=3, max_size=41).filter(lambda n: len(set(n)) > 2))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_passages_are_the_split_with_neighbours_joined(numbers: list[int]) -> None:
    text = "\n\n".join(f"paragraph {n}\nof two lines" for n in numbers)
    found = Corpus.from_text(text)
    splits, passages = found.split(0.3, 0.2), found.passages(0.3, 0.2)
    joined = [p for part in passages.parts for p in part]
    assert all(p in text for p in joined)
    for part, whole in zip(splits.parts, passages.parts, strict=True):
        assert "\n\n".join(whole) == "\n\n".join(part)
    runs = 1 + sum(
        (a in splits.train, a in splits.dev) != (b in splits.train, b in splits.dev)
        for a, b in pairwise(found.documents)
    )
    assert len(joined) == runs


def test_files_of_a_folder_are_never_joined(tmp_path: Path) -> None:
    for i in range(11):
        (tmp_path / f"{i}.txt").write_text(f"file {i}", encoding="utf-8")
    found = Corpus.read(tmp_path)
    assert found.passages() == found.split()
