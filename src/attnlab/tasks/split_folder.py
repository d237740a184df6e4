"""Labelled data in a folder with the files train, dev and test, each a .csv, .tsv or .jsonl.

    SST-2's files    a sentence and 0 or 1 in a .tsv, with or without header
    BoolQ's files    question, passage and answer in a .jsonl
    other files      the columns that the user names

If test is missing or has no labels, dev is split in two by hash: one half to choose by, one to
report.
"""

from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.tasks.known_data import ANSWER_KEYS, boolq, sst2
from attnlab.tasks.labelled import (
    HALVED_NOTE,
    Columns,
    LabelledData,
    class_names,
    split_in_halves,
    to_examples,
)
from attnlab.tasks.tables import TABLE_SUFFIXES, read_first_line, read_table
from attnlab.tasks.texts import JSON_LINES_SUFFIXES

FILE_STEMS = {
    "train": ("train", "combined"),
    "dev": ("dev", "validation", "val"),
    "test": ("test",),
}


def split_files(folder: Path) -> dict[str, Path]:
    """Find the file of each split; a missing train or dev, or two candidates, raise UsageError."""
    split_paths: dict[str, Path] = {}
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
            split_paths[split] = files[0]
        elif split != "test":
            known = ", ".join(f"{split}{ending}" for ending in TABLE_SUFFIXES)
            raise UsageError(f"{folder}: no {split} in this folder ({known})")
    return split_paths


def read_folder(folder: Path, columns: Columns) -> LabelledData:
    """Read a folder of splits; SST-2's and BoolQ's files are recognised by their columns."""
    files = split_files(folder)
    present = _columns(files["train"])
    is_boolq = {"question", "passage"} <= present and present & set(ANSWER_KEYS)
    if is_boolq and columns.text not in present:
        return boolq(files)
    if files["train"].suffix == ".tsv" and columns.text not in present:
        return sst2(files)
    return _read_with_columns(folder.resolve().name, files, columns)


def _columns(path: Path) -> set[str]:
    if path.suffix.lower() in JSON_LINES_SUFFIXES:
        return set(read_table(path)[0].fields)
    return set(read_first_line(path))


def _read_with_columns(name: str, files: dict[str, Path], columns: Columns) -> LabelledData:
    rows = read_table(files["train"])
    row_labels = [row.label(columns.label) for row in rows]
    labels = class_names(row_labels, str(files["train"]), len(rows))
    train = to_examples(rows, columns, labels)
    dev = to_examples(read_table(files["dev"]), columns, labels)
    if "test" in files and columns.label in _columns(files["test"]):
        test = to_examples(read_table(files["test"]), columns, labels)
        return LabelledData(name, labels, train, dev, test)
    return LabelledData(name, labels, train, *split_in_halves(dev, str(files["dev"])), HALVED_NOTE)
