"""Articles with summaries, the same for every arm: split by content, cut to the context."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_of_setting
from attnlab.tasks.made_up_articles import made_up_articles
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
    from attnlab.studies.distillation.study import DistilSettings

NAMED = {"xsum": xsum, "multi-lexsum": multi_lexsum, "made-up": made_up_articles}


def load_articles(s: "DistilSettings", tokenizer: "HubTokenizer") -> SummarySplits:
    """The first rows of each split, articles cut to whole words within `article_tokens`."""
    splits = load_splits(s)

    def shorten(rows: tuple[SummaryRow, ...], count: int) -> tuple[SummaryRow, ...]:
        return tuple(
            SummaryRow(truncate_words(row.article, s.article_tokens, tokenizer.encode), row.summary)
            for row in rows[: count or None]
        )

    return SummarySplits(
        shorten(splits.train, s.train), shorten(splits.dev, s.dev), shorten(splits.test, s.test)
    )


def load_splits(s: "DistilSettings") -> SummarySplits:
    """Train, dev and test by the hash of the article; none may be empty."""
    splits = _splits(s.data, s.data_sha256)
    empty = [name for name, rows in splits.as_dict().items() if not rows]
    if empty:
        raise UsageError(f"{s.data}: too few rows, the {empty[0]} split is empty")
    return splits


def court_cases(s: "DistilSettings") -> tuple[SummaryRow, ...]:
    """Rows whose summaries have several sentences, to show what line breaks do; no model needed."""
    rows = made_up_articles() if s.data == "made-up" else multi_lexsum()
    return rows[: s.lines or None]


@lru_cache(maxsize=2)
def _splits(data: str, sha256: str) -> SummarySplits:
    if data in NAMED:
        return split_rows(NAMED[data]())
    if sha256 and sha256_of_setting("data", data, NAMED) != sha256:
        raise UsageError(f"{data}: the file changed since this run was started")
    return split_rows(read_summaries(Path(data)))
