"""Texts, or pairs of texts, with a label: to learn from, to choose by, to report once.

    key(example) = SHA-256 of its texts without case and extra spaces

Copies share a key and so a split, whatever the order of the files. Anyone's table is cut by where
the key falls (`by_hash`), so that a row added later moves no other; a known set into parts of a
known size by the order of its keys (`split_by_sizes`). The baseline without a model is the majority.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.tasks.corpus import Corpus, collapse_whitespace
from attnlab.tasks.tables import TableRow, read_table

DEV, TEST = 0.1, 0.1  # of anyone's rows
MIN_ROWS = 10  # rows of a table that can be cut in three


@dataclass(frozen=True)
class Example:
    """A text, a second one where the question is about a pair, and the number of its class."""

    text: str
    second: str | None
    label: int

    @property
    def texts(self) -> tuple[str, ...]:
        """One text, or two."""
        return (self.text,) if self.second is None else (self.text, self.second)


Examples = tuple[Example, ...]


@dataclass(frozen=True)
class LabelledData:
    """A task: its classes in order, and three splits of which only dev may choose anything."""

    name: str
    labels: tuple[str, ...]
    train: Examples
    dev: Examples
    test: Examples
    note: str = ""  # what a report must say about these data

    def texts(self) -> dict[str, list[tuple[str, ...]]]:
        """By name, as the audit split-overlap takes them."""
        return {name: [e.texts for e in part] for name, part in self.as_dict().items()}

    def as_dict(self) -> dict[str, Examples]:
        """The splits by name."""
        return {"train": self.train, "dev": self.dev, "test": self.test}

    def sample(self, train: int, dev: int = 0, test: int = 0) -> "LabelledData":
        """The first rows of each split in the order of their keys; 0: all of it."""

        def few(rows: Examples, n: int) -> Examples:
            return tuple(sorted(rows, key=example_key)[:n]) if n else rows

        parts = few(self.train, train), few(self.dev, dev), few(self.test, test)
        return LabelledData(self.name, self.labels, *parts, self.note)


@dataclass(frozen=True)
class Columns:
    """Which column holds what."""

    text: str
    label: str
    second: str | None = None


def majority(examples: Sequence[Example]) -> float:
    """Share of the most frequent class: what a constant answer scores."""
    return max(Counter(e.label for e in examples).values()) / len(examples)


def read_labelled_table(path: Path, columns: Columns) -> LabelledData:
    """Anyone's table, cut 80 / 10 / 10 by the hash of its texts."""
    rows = read_table(path)
    given = [row.label(columns.label) for row in rows]  # a wrong column is named first
    if len(rows) < MIN_ROWS:
        raise UsageError(f"{path}: {len(rows)} rows; train, dev and test need {FEWEST}")
    labels = class_names(given, str(path), len(rows))
    return split_by_hash(path.name, labels, to_examples(rows, columns, labels))


def to_examples(rows: Iterable[TableRow], columns: Columns, labels: Sequence[str]) -> Examples:
    """The rows as examples; a label that is no class is a UsageError with its line."""
    number = {name: i for i, name in enumerate(labels)}
    found = []
    for row in rows:
        label = row.label(columns.label)
        if label not in number:
            raise UsageError(f"{row.where}: label {label!r} is not one of {', '.join(labels)}")
        second = None if columns.second is None else row.text(columns.second)
        found.append(Example(row.text(columns.text), second, number[label]))
    return tuple(found)


def class_names(labels: Iterable[str], where: str, rows: int) -> tuple[str, ...]:
    """The different labels, numbers by size and words by the alphabet; too many are no classes."""
    found = set(labels)
    if len(found) < 2:
        raise UsageError(f"{where}: every label is {found.pop()!r}; a classifier needs two")
    if len(found) > rows // 2:
        raise UsageError(f"{where}: {len(found)} different labels in {rows} rows are no classes")
    whole = all(name.lstrip("+-").isdecimal() for name in found)
    return tuple(sorted(found, key=(lambda name: (int(name), name)) if whole else None))


def split_by_hash(name: str, labels: tuple[str, ...], rows: Examples) -> LabelledData:
    """80 / 10 / 10 by where each key falls; every class must be in the part that is learnt."""
    keys = [example_key(row) for row in rows]
    parts = Corpus(tuple(dict.fromkeys(keys)), name).split(DEV, TEST).parts
    place = {key: i for i, part in enumerate(parts) for key in part}
    cut: tuple[list[Example], ...] = ([], [], [])
    for row, key in zip(rows, keys, strict=True):
        cut[place[key]].append(row)
    train, dev, test = map(tuple, cut)
    if not test:
        raise UsageError(f"{name}: too few different texts for train, dev and test")
    learnt = {row.label for row in train}
    absent = next((labels[i] for i in range(len(labels)) if i not in learnt), None)
    if absent is not None:
        raise UsageError(f"{name}: no row to learn {absent!r} from; it is too rare for a class")
    return LabelledData(name, labels, train, dev, test)


def split_by_sizes(
    rows: Sequence[Example],
    sizes: Sequence[int],
    key: Callable[[Example], str] | None = None,
) -> list[Examples]:
    """Parts of these sizes in the order of the keys; a run of equal keys is not torn apart.

    Exact where all keys differ; otherwise a part may have a few rows more than its size.
    """
    key = key or example_key
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


def split_in_halves(
    dev: Examples, where: str, key: Callable[[Example], str] | None = None
) -> tuple[Examples, Examples]:
    """One to choose by, one to report, in the order of the keys."""
    first, second = split_by_sizes(dev, (len(dev) // 2, len(dev) - len(dev) // 2), key)
    if not first or not second:
        raise UsageError(f"{where}: too few different texts to be cut in two, without a test")
    return first, second


def example_key(row: Example) -> str:
    """SHA-256 of the texts, in hex: copies that differ in case or spaces share it."""
    return text_key(*row.texts)


def text_key(*texts: str) -> str:
    """SHA-256 over texts without case and extra spaces."""
    words = "\0".join(collapse_whitespace(text.casefold()) for text in texts)
    return hashlib.sha256(words.encode(errors="surrogatepass")).hexdigest()
