"""Articles with summaries written by people: XSum (one sentence) and Multi-LexSum (several).

Rows are split into train, dev and test by the SHA-256 of their article, as in tasks/corpus.py. Rows
that share an article or a summary (case and white space do not count) are in the same split, so
that no answer of the test split was trained on. The baseline without a model is `lead_sentences`,
the first sentences of the article as measure/sentences.py splits them.
"""

import re
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.core.errors import UsageError
from attnlab.measure.sentences import sentences
from attnlab.tasks.corpus import Splits, collapse_whitespace, read_text, split_by_key
from attnlab.tasks.texts import parse_json_lines

ARTICLE = ("document", "article")  # keys of a JSON row; the first that it has is read
SUMMARY = ("summary", "highlights")


@dataclass(frozen=True)
class SummaryRow:
    """An article and the summary a person wrote of it."""

    article: str
    summary: str


SummarySplits = Splits[SummaryRow]


def xsum() -> tuple[SummaryRow, ...]:
    """Read 999 BBC articles; the summary is the introductory sentence, removed from the article.

    Of the asset's 1,000 rows, line 220 has no article (a gallery of pictures) and is left out.
    """
    return _asset("xsum")


def multi_lexsum() -> tuple[SummaryRow, ...]:
    """Read 868 court cases; the long summary serves as the article, the short one as summary."""
    return _asset("multi-lexsum")


def read_summaries(path: Path) -> tuple[SummaryRow, ...]:
    """Read a JSONL file with the keys document (or article) and summary; skip rows without text.

    Line ends become \\n, and white space at both ends of a text is removed.
    """
    rows = []
    for where, fields in parse_json_lines(path, read_text(path)):
        if not isinstance(fields, dict):
            raise UsageError(f"{where}: must be an object with an article and a summary")
        row = SummaryRow(_field(fields, ARTICLE, where), _field(fields, SUMMARY, where))
        if row.article and row.summary:
            rows.append(row)
    if not rows:
        raise UsageError(f"{path}: no row has both an article and a summary")
    return tuple(rows)


def split_rows(rows: Sequence[SummaryRow], dev: float = 0.1, test: float = 0.2) -> SummarySplits:
    """Split by the hash of the article; rows that share a text stay together."""
    return split_by_key(rows, _duplicate_groups(rows), "rows", dev, test)


def truncate_words(text: str, budget: int, encode: Callable[[str], Sized]) -> str:
    """Truncate a text to its first words so that len(encode(text)) <= budget, by binary search.

    The result is the longest one if more words never take fewer tokens, which holds for every
    tokenizer that never joins words. UsageError if not even the first word fits.
    """
    text = text.rstrip()
    if len(encode(text)) <= budget:
        return text
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    low, high = 0, len(ends) - 1  # number of words that fit; index of an end that does not
    while low < high:
        middle = (low + high) // 2
        fits = len(encode(text[: ends[middle]])) <= budget
        low, high = (middle + 1, high) if fits else (low, middle)
    if low == 0:
        raise UsageError(f"{budget} tokens hold no word of {text[:40]!r}")
    return text[: ends[low - 1]]


def lead_sentences(article: str, count: int = 1, between: str = " ") -> str:
    """Return the first `count` sentences of an article: the baseline without a model."""
    if count < 1:
        raise UsageError(f"a lead has at least one sentence, not {count}")
    return between.join(sentences(article)[:count])


def _asset(name: str) -> tuple[SummaryRow, ...]:
    from attnlab.assets import get

    return tuple(row for file in sorted(get(name).files) for row in read_summaries(file))


def _field(fields: dict[str, Any], names: Iterable[str], where: str) -> str:
    value = next((fields[name] for name in names if name in fields), None)
    if not isinstance(value, str):
        raise UsageError(f"{where}: needs a text under {' or '.join(map(repr, names))}")
    return value.replace("\r\n", "\n").replace("\r", "\n").strip()


def _duplicate_groups(rows: Sequence[SummaryRow]) -> list[str]:
    """Return for each row the smallest article of its group (union-find over shared texts)."""
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        while leader[key] != key:
            key = leader[key]
        return key

    by_summary: dict[str, str] = {}
    articles = [collapse_whitespace(row.article.casefold()) for row in rows]
    for article, row in zip(articles, rows, strict=True):
        leader.setdefault(article, article)
        other = by_summary.setdefault(collapse_whitespace(row.summary.casefold()), article)
        one, two = sorted((find(article), find(other)))
        leader[two] = one
    return [find(article) for article in articles]
