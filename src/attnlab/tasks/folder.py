"""A folder of splits: train, dev and, where it has labels, test, each a .csv, .tsv or .jsonl.

    SST-2's files    a sentence and 0 or 1 in a .tsv, with or without header
    BoolQ's files    question, passage and answer in a .jsonl
    anyone's         the columns that were named

Without labels in test, dev is cut in two by hash: one half chooses, the other is reported.
"""

from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.tasks.boolq import KEYS, boolq
from attnlab.tasks.labelled import HALVED, Columns, Labelled, class_names, examples_of, halves
from attnlab.tasks.sentiment import sst2
from attnlab.tasks.tables import ENDINGS, LINES_OF_JSON, first_fields, read_table

NAMES = {"train": ("train", "combined"), "dev": ("dev", "validation", "val"), "test": ("test",)}


def split_files(folder: Path) -> dict[str, Path]:
    """The file of each split; UsageError when one that is needed is missing, or is there twice."""
    found: dict[str, Path] = {}
    for split, names in NAMES.items():
        files = [
            path
            for name in names
            for ending in ENDINGS
            if (path := folder / f"{name}{ending}").is_file()
        ]
        if len(files) > 1:
            raise UsageError(f"{folder}: {files[0].name} and {files[1].name}: which is {split}?")
        if files:
            found[split] = files[0]
        elif split != "test":
            known = ", ".join(f"{split}{ending}" for ending in ENDINGS)
            raise UsageError(f"{folder}: no {split} in this folder ({known})")
    return found


def read_folder(folder: Path, columns: Columns) -> Labelled:
    """SST-2's or BoolQ's files, known by their columns, or anyone's."""
    files = split_files(folder)
    given = _columns(files["train"])
    if {"question", "passage"} <= given and given & set(KEYS) and columns.text not in given:
        return boolq(files)
    if files["train"].suffix == ".tsv" and columns.text not in given:
        return sst2(files)
    return _named(folder.resolve().name, files, columns)


def _columns(path: Path) -> set[str]:
    if path.suffix.lower() in LINES_OF_JSON:
        return set(read_table(path)[0].fields)
    return set(first_fields(path))


def _named(name: str, files: dict[str, Path], columns: Columns) -> Labelled:
    rows = read_table(files["train"])
    given = [row.label(columns.label) for row in rows]
    labels = class_names(given, str(files["train"]), len(rows))
    train = examples_of(rows, columns, labels)
    dev = examples_of(read_table(files["dev"]), columns, labels)
    if "test" in files and columns.label in _columns(files["test"]):
        test = examples_of(read_table(files["test"]), columns, labels)
        return Labelled(name, labels, train, dev, test)
    return Labelled(name, labels, train, *halves(dev, str(files["dev"])), HALVED)
