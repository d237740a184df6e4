"""Articles with summaries, the same for every arm: split by content, cut to the context."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from attnlab.core.config import content_hash
from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_file
from attnlab.studies.distillation import tiny
from attnlab.studies.distillation.settings import DistilSettings
from attnlab.tasks.summaries import (
    SummaryRow,
    SummarySplits,
    multi_lexsum,
    read_summaries,
    split_rows,
    truncate_words,
    xsum,
)

if TYPE_CHECKING:
    from attnlab.models.hub import HubTokenizer  # imports torch: a second

ASSETS = ("xsum", "multi-lexsum")
NAMED = (*ASSETS, "made-up")


@dataclass(frozen=True)
class Material:
    """What is read and what people wrote; articles are cut, summaries are whole."""

    train: tuple[SummaryRow, ...]
    dev: tuple[SummaryRow, ...]
    test: tuple[SummaryRow, ...]
    cut: float  # share of the test articles that lost their end


def material(s: DistilSettings, tokenizer: "HubTokenizer") -> Material:
    """The first rows of each split, articles cut to whole words within `article_tokens`."""
    splits = splits_of(s)
    chosen = [
        part[: count or None]
        for part, count in ((splits.train, s.train), (splits.dev, s.dev), (splits.test, s.test))
    ]
    short = [tuple(_short(row, s.article_tokens, tokenizer) for row in part) for part in chosen]
    whole = {row.article for row in chosen[2]}
    cut = sum(row.article not in whole for row in short[2]) / len(short[2])
    return Material(short[0], short[1], short[2], cut)


def splits_of(s: DistilSettings) -> SummarySplits:
    """Train, dev and test by the hash of the article; none may be empty."""
    found = _splits(s.data, s.data_sha256)
    empty = [name for name, rows in found.as_dict().items() if not rows]
    if empty:
        raise UsageError(f"{s.data}: too few rows, the {empty[0]} split is empty")
    return found


def several(s: DistilSettings) -> tuple[SummaryRow, ...]:
    """Rows whose summaries have several sentences, to show what line ends do: no model needed."""
    found = tiny.rows() if s.data == "made-up" else multi_lexsum()
    return found[: s.lines or None]


@lru_cache(maxsize=2)
def _splits(data: str, sha256: str) -> SummarySplits:
    if data == "made-up":
        return split_rows(tiny.rows())
    if data in ASSETS:
        return split_rows(xsum() if data == "xsum" else multi_lexsum())
    if sha256 and file_sha256(data) != sha256:
        raise UsageError(f"{data}: changed since this run was started")
    return split_rows(read_summaries(Path(data)))


def file_sha256(data: str) -> str:
    """SHA-256 of a file of rows; UsageError where there is none."""
    if not Path(data).is_file():
        raise UsageError(f"data {data!r}: neither {', '.join(NAMED)} nor a file")
    return sha256_file(Path(data))


def model_sha256(*names: str) -> str:
    """SHA-256 over the files of models that are folders or files here; '' where none is."""
    said = []
    for name in names:
        path = Path(name) if name else Path("/nowhere")
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        said += [f"{file.name} {sha256_file(file)}" for file in files if file.is_file()]
    return content_hash(said) if said else ""


def _short(row: SummaryRow, budget: int, tokenizer: "HubTokenizer") -> SummaryRow:
    return SummaryRow(truncate_words(row.article, budget, tokenizer.encode), row.summary)
