"""Text as documents, split by what a document says and by nothing else.

    split(document) = dev, test or train by where SHA-256(document)/2^256 falls in
    [0, dev), [dev, dev + test), [dev + test, 1)

so a document is in one split only, its copies with it, whatever the order of the files, and a
document added later moves no other. White space does not count. (Where a split would stay
empty, see `Corpus.split`.) A document is a play or poem (asset "shakespeare"), a .txt file of a
folder, or in one file a paragraph between blank lines, else a line, else a sentence: the first
of these that gives three different pieces.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from attnlab.core.errors import UsageError, from_os_error
from attnlab.tasks.drama import strip_front_matter

TEXT_LIMIT = 1_000_000_000  # bytes of one text file
MIN_DOCUMENTS = 3  # different documents, so that train, dev and test can have one each
_BLANK = re.compile(r"\n[ \t\f\v]*\n")
# A full stop and what may stand between it and the next sentence; 。！？ need no space after
# them. Possessive, and never started inside a run of stops: linear on any text.
_STOP = re.compile(r"(?<![.!?…])[.!?…]++['\"’”)\]]*+(?:--+[ \t]*|\s+|\Z)|[。！？]++[」』”’]*+\s*")
_SHORT = re.compile(r"\b(?:Mrs?|Ms|Messrs|Dr|St|Prof|Rev|vs|[A-HJ-NP-Z])\.\s+\Z")


@dataclass(frozen=True)
class Splits:
    """Documents to learn from, to choose by, and to look at once."""

    train: tuple[str, ...]
    dev: tuple[str, ...]
    test: tuple[str, ...]

    def map(self, change: Callable[[str], str]) -> "Splits":
        """The same split of changed documents (`spoken`): changed first, they would hash anew."""
        return Splits(*(tuple(change(d) for d in part) for part in self.parts))

    @property
    def parts(self) -> tuple[tuple[str, ...], ...]:
        """(train, dev, test)."""
        return self.train, self.dev, self.test


@dataclass(frozen=True)
class Corpus:
    """Documents in the order they were found, and what stood between them in one file."""

    documents: tuple[str, ...]
    name: str = "text"
    between: str | None = None

    @staticmethod
    def shakespeare(files: Sequence[Path] | None = None) -> "Corpus":
        """37 plays and 5 poems, without title and byline; from the asset unless files are given."""
        if files is None:
            from attnlab.assets import get

            files = get("shakespeare").files
        return Corpus(tuple(strip_front_matter(read_text(f)) for f in sorted(files)), "shakespeare")

    @staticmethod
    def read(path: Path) -> "Corpus":
        """The documents of a text file or of a folder's .txt files, in UTF-8."""
        if not os.path.isdir(path):  # unlike Path.is_dir, False for a name too long
            return Corpus.of(read_text(path), str(path))
        files = sorted(p for p in path.rglob("*.txt") if p.is_file())
        texts = [text for f in files if (text := read_text(f, empty=True).strip())]
        if not texts:
            found = f"{len(files)} .txt files, all empty" if files else "no .txt file"
            raise UsageError(f"{path}: {found}")
        return Corpus(tuple(texts), path.name) if len(texts) > 1 else Corpus.of(texts[0], str(path))

    @staticmethod
    def of(text: str, name: str = "text") -> "Corpus":
        """One text: paragraphs, else lines, else sentences, whichever first gives three.

        Two are taken when no way gives three; one cannot be split and is an error.
        """
        ways: tuple[tuple[Callable[[str], Iterable[str]], str], ...] = (
            (_BLANK.split, "\n\n"),
            (_lines, "\n"),
            (split_sentences, " "),
        )
        two = None
        for way, between in ways:
            documents = tuple(p for piece in way(text) if (p := piece.strip()))
            different = len({collapse_whitespace(d) for d in documents})
            if different >= MIN_DOCUMENTS:
                return Corpus(documents, name, between)
            two = two or (Corpus(documents, name, between) if different == 2 else None)
        if two is None:
            raise UsageError(f"{name}: one sentence only; a train and a dev split need two")
        return two

    def split(self, dev: float = 0.1, test: float = 0.1) -> Splits:
        """Train, dev and test by hash; a split asked for is empty only when documents run out.

        With few documents the hash may leave one empty. Then it takes the document nearest to
        its interval from the split that has most, and when none has two, train takes from test
        or dev, and dev from test: with two documents there is no test split, with one an error.
        """
        if not (dev > 0 and test >= 0 and dev + test < 1):
            raise UsageError(f"splits: need 0 < dev, 0 <= test, dev + test < 1; got {dev}, {test}")
        places = {
            key: hash_fraction(key) for key in {collapse_whitespace(d) for d in self.documents}
        }
        if len(places) < 2:
            raise UsageError(f"{self.name}: one document only; a train and a dev split need two")
        part_of = _assign_splits(places, dev, test)
        parts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
        for document in self.documents:
            parts[part_of[collapse_whitespace(document)]].append(document)
        return Splits(*(tuple(part) for part in parts.values()))

    def passages(self, dev: float = 0.1, test: float = 0.1) -> Splits:
        """`split`, with neighbours of one file that fell into the same split joined again.

        For a stream of text: the lines of a poem follow each other as they do in the file,
        except where one of them was taken out for dev or test.
        """
        splits = self.split(dev, test)
        if self.between is None:
            return splits
        part_of = {collapse_whitespace(d): i for i, part in enumerate(splits.parts) for d in part}
        parts: list[list[str]] = [[], [], []]
        for part, run in groupby(self.documents, key=lambda d: part_of[collapse_whitespace(d)]):
            parts[part].append(self.between.join(run))
        return Splits(*(tuple(part) for part in parts))


def read_text(path: Path, *, empty: bool = False) -> str:
    """A UTF-8 text file with line ends as \\n; anything else is one UsageError line."""
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
    """Every paragraph's sentences: . ! ? … end one unless a small letter follows.

    Verse lines are joined first, so a sentence runs over them; "ho!--Come" ends one too. Initials
    and a few short forms (M. Mr. St.) do not. What ends without a stop (a heading) counts too.
    """
    found = []
    for paragraph in _BLANK.split(text):
        flat, start = collapse_whitespace(paragraph), 0
        for stop in _STOP.finditer(flat):
            end = stop.end()
            if _sentence_continues(flat, end):
                continue
            found.append(flat[start:end].strip())
            start = end
        found.append(flat[start:].strip())
    return [s for s in found if s]


def _sentence_continues(text: str, end: int) -> bool:
    following = text[end : end + 4].lstrip("'\"‘“(")[:1]
    return following.islower() or _SHORT.search(text, max(0, end - 12), end) is not None


def collapse_whitespace(document: str) -> str:
    """What two copies share: the words, whatever the white space."""
    return " ".join(document.split())


def hash_fraction(key: str) -> float:
    """SHA-256 of the text as a number in [0, 1)."""
    return (
        int.from_bytes(hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:6], "big")
        / 2**48
    )


def _lines(text: str) -> list[str]:
    return text.split("\n")


def _assign_splits(places: dict[str, float], dev: float, test: float) -> dict[str, str]:
    """Document -> name of its split; the rule of `Corpus.split`."""
    spans = {"train": (dev + test, 1.0), "dev": (0.0, dev), "test": (dev, dev + test)}
    parts = {
        name: [k for k, u in places.items() if low <= u < high]
        for name, (low, high) in spans.items()
    }
    order = ("train", "dev", "test") if test > 0 else ("train", "dev")
    for rank, name in enumerate(order):
        if parts[name]:
            continue
        # most documents first; among singles only a split of lower rank may be emptied
        donor = max(order, key=lambda other: (len(parts[other]), order.index(other)))
        if len(parts[donor]) < 2 and order.index(donor) < rank:
            continue
        low, high = spans[name]
        moved = min(parts[donor], key=lambda k: (max(low - places[k], places[k] - high), k))
        parts[donor].remove(moved)
        parts[name].append(moved)
    return {key: name for name, keys in parts.items() for key in keys}
