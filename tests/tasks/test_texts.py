"""Files of texts are read as written, or refused by a one-line error that names the place."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlab.core.errors import UsageError
from attnlab.tasks.texts import read_texts

# a file in UTF-8 holds no lone surrogates; a NUL is refused, a \r is a line end
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
LINES = st.lists(st.text(CHARACTERS.filter(lambda c: c != "\n"), max_size=17), max_size=7)
TEXTS = st.lists(st.text(max_size=17), max_size=7)
QUICK = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@QUICK
@given(LINES)
def test_one_text_a_line(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "p.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    expected = lines
    if lines and lines[0].startswith("\ufeff"):  # a byte-order mark is no text
        expected = [lines[0].removeprefix("\ufeff"), *lines[1:]]
    assert read_texts(path) == expected


@QUICK
@given(TEXTS, st.booleans(), st.booleans())
def test_json_holds_any_text(tmp_path: Path, texts: list[str], keyed: bool, plain: bool) -> None:
    held = [{"text": text, "id": 7} if keyed else text for text in texts]
    path = tmp_path / ("p.json" if plain else "p.jsonl")
    lines = [json.dumps(item) for item in held]
    path.write_text(json.dumps(held) if plain else "".join(f"{x}\n" for x in lines), "utf-8")
    assert read_texts(path) == texts


@QUICK
@given(st.binary(max_size=61), st.sampled_from(["txt", "json", "jsonl", "NDJSON"]))
def test_any_bytes_are_texts_or_refused(tmp_path: Path, data: bytes, ending: str) -> None:
    path = tmp_path / f"p.{ending}"
    path.write_bytes(data)
    try:
        found = read_texts(path)
    except UsageError as error:
        assert str(path) in str(error) and "\n" not in str(error)
    else:
        assert all(isinstance(text, str) for text in found)


def test_the_rule_for_empty_lines_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    for held, texts in {
        "": [],
        "\n": [""],
        "a": ["a"],
        "a\n": ["a"],
        "a\n\n": ["a", ""],
        "\na": ["", "a"],
        "a\r\nb\r\n": ["a", "b"],
        "a\u2028b\x0cc\n": ["a\u2028b\x0cc"],
        " a \n": [" a "],
    }.items():
        path.write_bytes(held.encode())
        assert read_texts(path) == texts, repr(held)


REFUSED = {
    "p.json": {
        "": "not JSON",
        '{"a": 1}': "must hold a list of texts, holds an object",
        "[1]": "item 1: must be a text, is a number",
        '["a", null]': "item 2: must be a text, is n",
        '[{"id": "a"}]': 'an object without "text"',
        '[{"text": 7}]': 'an object without "text"',
        "[[]]": "is a list",
        "[true]": "is true or false",
        "[" * 100_003: "not JSON",
        '"a"': "holds a text",
        "[" + "9" * 5003 + "]": "not JSON",
    },
    "p.jsonl": {
        '"a"\n\n"b"\n': "line 2: not JSON",
        "a\n": "line 1: not JSON",
        '"a"\n["b"]': "line 2: must be a text, is a list",
    },
    "p.txt": {"a\0b": "not a text file"},
}


@pytest.mark.parametrize(
    ("name", "held"), [(n, h) for n, held in REFUSED.items() for h in held], ids=lambda x: x[:20]
)
def test_what_is_no_list_of_texts(tmp_path: Path, name: str, held: str) -> None:
    (tmp_path / name).write_text(held, encoding="utf-8")
    with pytest.raises(UsageError) as error:
        read_texts(tmp_path / name)
    assert REFUSED[name][held] in str(error.value)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_files_of_a_wrong_kind_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.txt", Path("/dev/zero")):
        with pytest.raises(UsageError):
            read_texts(path)
