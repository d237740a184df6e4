"""contamination: how much of the test was in the text the model was trained on?

Runs: every answer or test row is looked for in the text, as whole words, without case and
punctuation; a row longer than 13 words counts when any 13 words in a row are found. Number: share
of the rows that are in the text. Splits the score by it. Fails when rows are in the text and their
score is higher than that of the others beyond chance (the score is partly memory), or no score
was given to tell. Text without spaces between words is compared as whole runs of letters.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.measure.content import to_list
from attnlab.measure.diversity import ngrams
from attnlab.measure.intervals import difference_of_shares, wilson

NAME = "contamination"
WINDOW = 13  # words; as in the report of GPT-3 (Brown et al. 2020, appendix C)
SHOWN = 3
WORDS = re.compile(r"\w+")


@audit(NAME, threshold=0)
def contamination(
    rows: Sequence[str],
    text: str | Iterable[str],
    right: Sequence[bool] | None = None,
) -> Finding:
    """Judge test rows, or answers, against a text (or its documents one by one)."""
    if right is not None and len(right) != len(rows):
        raise ValueError(f"{len(right)} scores for {len(rows)} rows")
    inside = contained(rows, text)
    wordless = sum(not WORDS.search(row) for row in rows)
    if len(rows) == wordless:
        raise NotApplicable("no row has a word to look for")
    seen, n = sum(inside), len(rows)
    share = seen / n
    first = [i for i, is_inside in enumerate(inside) if is_inside][:SHOWN]
    evidence: dict[str, Any] = {"rows": n, "inside": seen, "rows_without_words": wordless}
    evidence |= {"window": WINDOW, "first": first}
    summary = f"{seen} of {n} rows ({share:.1%}) are in the text"
    if seen == 0:
        return Finding(NAME, "pass", share, 0, "no row is in the text", evidence)
    if right is None:
        example = rows[first[0]][:60]
        why = f"{summary}, {example!r} is the first; no scores were given to compare them"
        return Finding(NAME, "fail", share, 0, why, evidence)
    right_inside = sum(bool(r) for r, i in zip(to_list(right), inside, strict=True) if i)
    counts = (right_inside, seen), (sum(map(bool, to_list(right))) - right_inside, n - seen)
    evidence |= {"right_inside": list(counts[0]), "right_outside": list(counts[1])}
    if seen == n:
        why = f"{summary}: no other row is left to measure"
        return Finding(NAME, "fail", share, 0, why, evidence)
    gap = difference_of_shares(counts[0], counts[1])
    evidence |= {"difference": gap.value, "interval": [gap.low, gap.high]}
    scores = f"{wilson(*counts[0]).value:.1%} of those are right, {wilson(*counts[1]).value:.1%}"
    scores += f" of the others (difference {gap.low:.1%} to {gap.high:.1%})"
    why = f"{summary}: {scores}"
    return Finding(NAME, "fail" if gap.low > 0 else "pass", share, 0, why, evidence)


def contained(rows: Sequence[str], text: str | Iterable[str], window: int = WINDOW) -> list[bool]:
    """Which rows have all their words, or `window` in a row of them, in the text."""
    wanted: dict[int, dict[tuple[str, ...], list[int]]] = {}
    for i, row in enumerate(rows):
        words = _words(row)
        size = min(len(words), window)
        for gram in ngrams(words, size) if size else ():
            wanted.setdefault(size, {}).setdefault(gram, []).append(i)
    inside = [False] * len(rows)
    for document in [text] if isinstance(text, str) else text:
        words = _words(document)
        for size, grams in wanted.items():
            for gram in grams.keys() & set(ngrams(words, size)):
                for i in grams[gram]:
                    inside[i] = True
    return inside


def _words(text: str) -> list[str]:
    return WORDS.findall(text.casefold())
