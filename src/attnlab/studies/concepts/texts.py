"""Real texts under plain names, each split by document; drawn in an order that a seed gives.

news     articles of the BBC (xsum)          law      court cases (multi-lexsum)
plays    Shakespeare                         records  19,913 rows of a table, 40 a document
"""

from collections.abc import Sequence
from functools import lru_cache

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.tasks.corpus import Corpus, Splits, read_text
from attnlab.tasks.summaries import multi_lexsum, xsum

ROWS = 40  # of the table in one document


@lru_cache(maxsize=4)
def splits(name: str) -> Splits:
    """Train, dev and test: no document is in two of them."""
    if name == "plays":
        return Corpus.shakespeare().split()
    if name == "records":
        return Corpus(_records(), name).split()
    rows = {"news": xsum, "law": multi_lexsum}[name]()
    return Corpus(tuple(row.article for row in rows), name).split()


def taken(documents: Sequence[str], size: int, seed: Seed) -> list[str]:
    """Documents in a drawn order, `size` bytes of them; the last is cut between characters."""
    found: list[str] = []
    left = size
    for i in seed.numpy_generator().permutation(len(documents)):
        data = documents[int(i)].encode()
        found.append(data[:left].decode(errors="ignore"))
        left -= len(data)
        if left <= 0:
            return found
    raise UsageError(f"{size:,} bytes are asked for, the texts have {size - left:,}")


def byte_count(documents: Sequence[str]) -> int:
    """Of their UTF-8."""
    return sum(len(d.encode()) for d in documents)


def word_count(documents: Sequence[str]) -> int:
    """Runs of what is no white space."""
    return sum(len(d.split()) for d in documents)


def _records() -> tuple[str, ...]:
    from attnlab.assets import get

    (file,) = get("people").files
    lines = read_text(file).splitlines()[1:]
    return tuple("\n".join(lines[i : i + ROWS]) for i in range(0, len(lines), ROWS))
