"""Labelled texts and pairs of texts, in splits for train, dev and test.

    key(example) = SHA-256 of its texts without case and extra spaces

Copies share a key and therefore a split, whatever the order of the files. A user's table is split
by the value of the key (`split_by_hash`), so that a row added later moves no other; a known data
set is split into parts of known size by the order of its keys (`split_by_sizes`). The baseline
without a model is the majority class.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.plural import counted
from attnlab.tasks.corpus import collapse_whitespace, split_by_key
from attnlab.tasks.tables import TableRow, read_table

DEV, TEST = 0.1, 0.1  # fractions of a user's table
MIN_ROWS = 10  # of a table that is split into train, dev and test


@dataclass(frozen=True)
class Example:
    """A text, the second text of a pair or None, and the number of its class."""

    text: str
    second: str | None
    label: int

    @property
    def texts(self) -> tuple[str, ...]:
        """The text, or both texts of a pair."""
        return (self.text,) if self.second is None else (self.text, self.second)


Examples = tuple[Example, ...]
Key = Callable[[Example], str]


@dataclass(frozen=True)
class LabelledData:
    """A classification data set: class names in order, and the splits train, dev and test."""

    name: str
    labels: tuple[str, ...]
    train: Examples
    dev: Examples
    test: Examples
    note: str = ""  # what a report must say about these data

    def texts(self) -> dict[str, list[tuple[str, ...]]]:
        """Return the texts of each split by name, as the audit split-overlap takes them."""
        return {name: [e.texts for e in part] for name, part in self.as_dict().items()}

    def as_dict(self) -> dict[str, Examples]:
        """Return the examples of each split by name."""
        return {"train": self.train, "dev": self.dev, "test": self.test}

    def sample(self, train: int, dev: int = 0, test: int = 0) -> "LabelledData":
        """Keep the first rows of each split in the order of their keys; 0 keeps all rows."""

        def first(rows: Examples, n: int) -> Examples:
            return tuple(sorted(rows, key=example_key)[:n]) if n else rows

        parts = first(self.train, train), first(self.dev, dev), first(self.test, test)
        return LabelledData(self.name, self.labels, *parts, self.note)


@dataclass(frozen=True)
class Columns:
    """Names of the table columns with the text, the label and, for pairs, the second text."""

    text: str
    label: str
    second: str | None = None


def example_key(row: Example) -> str:
    """SHA-256 of an example's texts in hex; copies that differ in case or spaces share it."""
    return text_key(*row.texts)


def text_key(*texts: str) -> str:
    """SHA-256 of texts in hex, without case and extra spaces."""
    words = "\0".join(collapse_whitespace(text.casefold()) for text in texts)
    return hashlib.sha256(words.encode(errors="surrogatepass")).hexdigest()


def majority(examples: Sequence[Example]) -> float:
    """Fraction of the most frequent class: the accuracy of a constant answer."""
    return max(Counter(e.label for e in examples).values()) / len(examples)


def read_labelled_table(path: Path, columns: Columns) -> LabelledData:
    """Read a user's table and split it 80 / 10 / 10 by the hash of its texts."""
    rows = read_table(path)
    row_labels = [row.label(columns.label) for row in rows]  # reports a wrong column first
    if len(rows) < MIN_ROWS:
        have = counted(len(rows), "row")
        raise UsageError(f"{path}: {have}; train, dev and test need {MIN_ROWS}")
    labels = class_names(row_labels, str(path), len(rows))
    return split_by_hash(path.name, labels, to_examples(rows, columns, labels))


def to_examples(rows: Iterable[TableRow], columns: Columns, labels: Sequence[str]) -> Examples:
    """Turn rows into examples; an unknown label raises a UsageError that names its line."""
    number = {name: i for i, name in enumerate(labels)}
    examples = []
    for row in rows:
        label = row.label(columns.label)
        if label not in number:
            raise UsageError(f"{row.where}: label {label!r} is not one of {', '.join(labels)}")
        second = None if columns.second is None else row.text(columns.second)
        examples.append(Example(row.text(columns.text), second, number[label]))
    return tuple(examples)


def class_names(labels: Iterable[str], where: str, rows: int) -> tuple[str, ...]:
    """Return the different labels: integers in numerical order, words in alphabetical order.

    More than one label per two rows is an error: the column does not hold classes.
    """
    names = set(labels)
    if len(names) < 2:
        raise UsageError(f"{where}: every label is {names.pop()!r}; a classifier needs two")
    if len(names) > rows // 2:
        raise UsageError(f"{where}: {len(names)} different labels in {rows} rows are no classes")
    integers = all(name.lstrip("+-").isdecimal() for name in names)
    return tuple(sorted(names, key=(lambda name: (int(name), name)) if integers else None))


def split_by_hash(name: str, labels: tuple[str, ...], rows: Examples) -> LabelledData:
    """Split 80 / 10 / 10 by the hash of each key; every class must occur in train."""
    splits = split_by_key(rows, list(map(example_key, rows)), name, DEV, TEST)
    if not splits.test:
        raise UsageError(f"{name}: too few different texts for train, dev and test")
    trained = {row.label for row in splits.train}
    for number, label in enumerate(labels):
        if number not in trained:
            raise UsageError(f"{name}: no row to learn {label!r} from; it is too rare for a class")
    return LabelledData(name, labels, *splits.parts)


def split_by_sizes(
    rows: Sequence[Example], sizes: Sequence[int], key: Key = example_key
) -> list[Examples]:
    """Sort rows by key and split them into parts of these sizes; equal keys stay together.

    The sizes are exact if all keys differ; otherwise a part may have a few rows more.
    """
    ordered = sorted(rows, key=lambda row: (key(row), row.texts, row.label))
    if sum(sizes) != len(ordered):
        raise UsageError(f"parts of {sum(sizes):,} rows cannot be cut from {len(ordered):,}")
    parts, start, end = [], 0, 0
    for size in sizes:
        end += size
        stop = max(start, end)
        while 0 < stop < len(ordered) and key(ordered[stop]) == key(ordered[stop - 1]):
            stop += 1
        parts.append(tuple(ordered[start:stop]))
        start = stop
    return parts


HALVED_NOTE = "no test with labels: one half of dev chooses, the other is reported"


def split_in_halves(dev: Examples, where: str, key: Key = example_key) -> tuple[Examples, Examples]:
    """Split dev by the order of the keys into one half to choose by and one to report."""
    first, second = split_by_sizes(dev, (len(dev) // 2, len(dev) - len(dev) // 2), key)
    if not first or not second:
        raise UsageError(f"{where}: too few different texts to be cut in two, without a test")
    return first, second
