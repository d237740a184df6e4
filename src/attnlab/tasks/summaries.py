"""Articles with summaries written by people: XSum (one sentence) and Multi-LexSum (several).

    split(row) = dev, test or train by SHA-256 of its article, as documents in tasks/corpus.py

Rows that share their article or their summary (case and white space do not count) are in one
split, so no answer of the test split was trained on. The baseline without a model is `lead_sentences`: the
first sentences of the article, by the rule of measure/sentences.py.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.core.errors import UsageError
from attnlab.measure.sentences import sentences
from attnlab.tasks.corpus import Corpus, collapse_whitespace, read_text

ARTICLE = ("document", "article")  # keys of a row, the first that is there
SUMMARY = ("summary", "highlights")


@dataclass(frozen=True)
class SummaryRow:
    """An article and the summary a person wrote of it."""

    article: str
    summary: str


@dataclass(frozen=True)
class SummarySplits:
    """Rows to learn from, to choose by, and to look at once."""

    train: tuple[SummaryRow, ...]
    dev: tuple[SummaryRow, ...]
    test: tuple[SummaryRow, ...]

    def as_dict(self) -> dict[str, tuple[SummaryRow, ...]]:
        """By name, as the audit split-overlap takes them."""
        return {"train": self.train, "dev": self.dev, "test": self.test}


def xsum(files: Sequence[Path] | None = None) -> tuple[SummaryRow, ...]:
    """999 BBC articles; the summary is the sentence that introduced each and was cut from it.

    Of the asset's 1,000 rows, line 220 has no article (a gallery of pictures) and is left out.
    """
    return _asset("xsum", files)


def multi_lexsum(files: Sequence[Path] | None = None) -> tuple[SummaryRow, ...]:
    """868 court cases: the long summary as the article, the short one (4.3 sentences) to write."""
    return _asset("multi-lexsum", files)


def read_summaries(path: Path) -> tuple[SummaryRow, ...]:
    """Rows of a JSONL file with document (or article) and summary; rows without text are left out.

    Line ends are \\n, white space at the ends is none of the text.
    """
    found = []
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), 1):
        row = _row(line, f"{path}: line {number}")
        if row.article and row.summary:
            found.append(row)
    if not found:
        raise UsageError(f"{path}: no row has both an article and a summary")
    return tuple(found)


def split_rows(rows: Sequence[SummaryRow], dev: float = 0.1, test: float = 0.2) -> SummarySplits:
    """Train, dev and test by the hash of the article; rows that share a text stay together."""
    group = _duplicate_groups(rows)
    parts = Corpus(tuple(dict.fromkeys(group)), "rows").split(dev, test).parts
    place = {collapse_whitespace(key): i for i, part in enumerate(parts) for key in part}
    chosen: tuple[list[SummaryRow], ...] = ([], [], [])
    for row, key in zip(rows, group, strict=True):
        chosen[place[collapse_whitespace(key)]].append(row)
    return SummarySplits(*map(tuple, chosen))


def truncate_words(text: str, budget: int, encode: Callable[[str], Sized]) -> str:
    """The longest beginning of whole words with len(encode(beginning)) <= budget.

    Longest where more words never take fewer tokens, as with any tokenizer that never joins
    words; within the budget always. UsageError where not even the first word fits.
    """
    text = text.rstrip()
    if len(encode(text)) <= budget:
        return text
    ends = [word.end() for word in re.finditer(r"\S+", text)]
    low, high = 0, len(ends) - 1  # words that fit, and index of the end that does not
    while low < high:
        middle = (low + high) // 2
        fits = len(encode(text[: ends[middle]])) <= budget
        low, high = (middle + 1, high) if fits else (low, middle)
    if low == 0:
        raise UsageError(f"{budget} tokens hold no word of {text[:40]!r}")
    return text[: ends[low - 1]]


def lead_sentences(article: str, count: int = 1, between: str = " ") -> str:
    """The first `count` sentences of an article: the baseline without a model."""
    if count < 1:
        raise UsageError(f"a lead has at least one sentence, not {count}")
    return between.join(sentences(article)[:count])


def _asset(name: str, files: Sequence[Path] | None) -> tuple[SummaryRow, ...]:
    if files is None:
        from attnlab.assets import get

        files = get(name).files
    return tuple(row for file in sorted(files) for row in read_summaries(file))


def _row(line: str, where: str) -> SummaryRow:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        why = getattr(error, "msg", None) or type(error).__name__
        raise UsageError(f"{where}: not JSON ({why})") from None
    if not isinstance(found, dict):
        raise UsageError(f"{where}: must be an object with an article and a summary")
    return SummaryRow(_field(found, ARTICLE, where), _field(found, SUMMARY, where))


def _field(found: dict[str, Any], names: Iterable[str], where: str) -> str:
    value = next((found[name] for name in names if name in found), None)
    if not isinstance(value, str):
        raise UsageError(f"{where}: needs a text under {' or '.join(map(repr, names))}")
    return value.replace("\r\n", "\n").replace("\r", "\n").strip()


def _duplicate_groups(rows: Sequence[SummaryRow]) -> list[str]:
    """For each row the least article among those it is tied to by a shared text."""
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
