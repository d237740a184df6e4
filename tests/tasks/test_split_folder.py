"""Folders of splits: BoolQ's and users' files; test_labelled.py tests SST-2's."""

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.core.errors import UsageError
from attnlab.tasks.labelled import Columns, LabelledData
from attnlab.tasks.split_folder import read_folder, split_files

DEFAULT = Columns("text", "label")


def jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def questions(name: str, count: int, passages: int) -> list[dict[str, Any]]:
    return [
        {
            "question": f"is it {name} {i}",
            "passage": f"{name} passage {i % passages}",
            "answer": i % 3 > 0,
        }
        for i in range(count)
    ]


def sizes(found: LabelledData) -> list[int]:
    return [len(part) for part in found.as_dict().values()]


def test_boolq_files_are_known_by_their_columns(tmp_path: Path) -> None:
    jsonl(tmp_path / "train.jsonl", [*questions("train", 29, 11), *questions("dev", 2, 7)])
    jsonl(tmp_path / "dev.jsonl", questions("dev", 19, 7))
    found = read_folder(tmp_path, DEFAULT)
    assert (found.name, found.labels) == ("boolq", ("no", "yes"))
    assert sizes(found)[0] == 29, "two questions of dev were in train"
    assert sum(sizes(found)[1:]) == 19 and "cut in two" in found.note
    assert not {e.second for e in found.dev} & {e.second for e in found.test}
    hidden = [{k: v for k, v in row.items() if k != "answer"} for row in questions("test", 5, 5)]
    jsonl(tmp_path / "test.jsonl", hidden)
    assert sizes(read_folder(tmp_path, DEFAULT)) == sizes(found)
    jsonl(tmp_path / "test.jsonl", questions("test", 5, 5))
    assert sizes(read_folder(tmp_path, DEFAULT)) == [29, 19, 5]


def test_a_test_that_holds_every_question_is_refused(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        jsonl(tmp_path / f"{name}.jsonl", questions("same", 7, 3))
    with pytest.raises(UsageError, match="every question is in dev or test"):
        read_folder(tmp_path, DEFAULT)


@pytest.mark.parametrize("validation", ["dev", "validation", "val"])
def test_anyones_splits_by_named_columns(tmp_path: Path, validation: str) -> None:
    for name, count in {"train": 23, validation: 8}.items():
        rows = "".join(f"{name} words {i},{'good' if i % 2 else 'bad'}\n" for i in range(count))
        (tmp_path / f"{name}.csv").write_text(f"review,stars\n{rows}", encoding="utf-8")
    columns = Columns("review", "stars")
    found = read_folder(tmp_path, columns)
    assert found.labels == ("bad", "good") and sizes(found) == [23, 4, 4] and found.note
    jsonl(tmp_path / "test.jsonl", [{"review": "unseen", "stars": "good"}])
    assert sizes(read_folder(tmp_path, columns)) == [23, 8, 1]
    jsonl(tmp_path / "test.jsonl", [{"review": "unseen", "stars": "awful"}])
    with pytest.raises(UsageError, match=r"test.jsonl: line 1: label 'awful' is not one of"):
        read_folder(tmp_path, columns)
    with pytest.raises(UsageError, match="no column 'reviews'"):
        read_folder(tmp_path, Columns("reviews", "stars"))


def test_a_folder_without_its_splits_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no train in this folder"):
        split_files(tmp_path)
    (tmp_path / "train.csv").write_text("text,label\na,b\n", encoding="utf-8")
    with pytest.raises(UsageError, match="no dev in this folder"):
        split_files(tmp_path)
    (tmp_path / "train.tsv").write_text("text\tlabel\na\tb\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"train\.csv and train\.tsv: which is train"):
        split_files(tmp_path)


def test_one_text_many_times_cannot_be_cut_in_two(tmp_path: Path) -> None:
    rows = "".join(f"text {i},{i % 2}\n" for i in range(7))
    (tmp_path / "train.csv").write_text(f"text,label\n{rows}", encoding="utf-8")
    (tmp_path / "dev.csv").write_text("text,label\n" + "the same,1\n" * 5, encoding="utf-8")
    with pytest.raises(UsageError, match="too few different texts to be cut in two"):
        read_folder(tmp_path, DEFAULT)
