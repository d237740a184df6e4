"""A folder of splits: train, dev and, where it has labels, test, each a .csv, .tsv or .jsonl.

    SST-2's files    a sentence and 0 or 1 in a .tsv, with or without header
    BoolQ's files    question, passage and answer in a .jsonl
    anyone's         the columns that were named

Without labels in test, dev is cut in two by hash: one half chooses, the other is reported.
"""

from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.tasks.boolq import ANSWER_KEYS, boolq
from attnlab.tasks.labelled import (
    HALVED_NOTE,
    Columns,
    LabelledData,
    class_names,
    split_in_halves,
    to_examples,
)
from attnlab.tasks.sentiment import sst2
from attnlab.tasks.tables import JSON_LINES_SUFFIXES, TABLE_SUFFIXES, read_first_line, read_table

FILE_STEMS = {
    "train": ("train", "combined"),
    "dev": ("dev", "validation", "val"),
    "test": ("test",),
}


def split_files(folder: Path) -> dict[str, Path]:
    """The file of each split; UsageError when one that is needed is missing, or is there twice."""
    found: dict[str, Path] = {}
    for split, names in FILE_STEMS.items():
        files = [
            path
            for name in names
            for ending in TABLE_SUFFIXES
            if (path := folder / f"{name}{ending}").is_file()
        ]
        if len(files) > 1:
            raise UsageError(f"{folder}: {files[0].name} and {files[1].name}: which is {split}?")
        if files:
            found[split] = files[0]
        elif split != "test":
            known = ", ".join(f"{split}{ending}" for ending in TABLE_SUFFIXES)
            raise UsageError(f"{folder}: no {split} in this folder ({known})")
    return found


def read_folder(folder: Path, columns: Columns) -> LabelledData:
    """SST-2's or BoolQ's files, known by their columns, or anyone's."""
    files = split_files(folder)
    given = _columns(files["train"])
    if {"question", "passage"} <= given and given & set(ANSWER_KEYS) and columns.text not in given:
        return boolq(files)
    if files["train"].suffix == ".tsv" and columns.text not in given:
        return sst2(files)
    return _read_with_columns(folder.resolve().name, files, columns)


def _columns(path: Path) -> set[str]:
    if path.suffix.lower() in JSON_LINES_SUFFIXES:
        return set(read_table(path)[0].fields)
    return set(read_first_line(path))


def _read_with_columns(name: str, files: dict[str, Path], columns: Columns) -> LabelledData:
    rows = read_table(files["train"])
    given = [row.label(columns.label) for row in rows]
    labels = class_names(given, str(files["train"]), len(rows))
    train = to_examples(rows, columns, labels)
    dev = to_examples(read_table(files["dev"]), columns, labels)
    if "test" in files and columns.label in _columns(files["test"]):
        test = to_examples(read_table(files["test"]), columns, labels)
        return LabelledData(name, labels, train, dev, test)
    return LabelledData(name, labels, train, *split_in_halves(dev, str(files["dev"])), HALVED_NOTE)
