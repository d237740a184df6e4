"""BoolQ: a question, a passage, yes or no. dev is cut in two: one to choose by, one to report.

    train = combined.jsonl minus the questions of dev.jsonl and test.jsonl      (9,427)
    dev, test = dev.jsonl by the hash of the passage                            (1,636, 1,634)

test.jsonl has no answers. Questions about one passage stay together. 62 % of the answers are yes:
2,033 of the 3,270 in dev.jsonl, the 0.6217 of a model that learnt nothing.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.tasks.labelled import (
    Columns,
    Example,
    Examples,
    Labelled,
    by_order,
    examples_of,
    text_key,
)
from attnlab.tasks.tables import TableRow, read_table

LABELS = ("no", "yes")
ANSWERS = ("false", "true")
KEYS = ("answer", "label")  # of the files: the first that is there


def boolq(files: Sequence[Path] | None = None) -> Labelled:
    """From the asset, or from a folder's combined.jsonl (or train.jsonl), dev.jsonl, test.jsonl."""
    if files is None:
        from attnlab.assets import get

        files = get("boolq").files
    named = {file.stem: file for file in files}
    whole = named.get("combined") or named.get("train")
    if whole is None or "dev" not in named:
        raise UsageError("boolq: needs combined.jsonl (or train.jsonl) and dev.jsonl")
    held = [row for stem in ("dev", "test") if stem in named for row in read_table(named[stem])]
    known = {text_key(row.text("question")) for row in held}
    rows = [r for r in read_table(whole) if text_key(r.text("question")) not in known]
    dev, test = halves(_examples(read_table(named["dev"])))
    why = "dev.jsonl is cut in two by passage: one half chooses, the other is reported"
    return Labelled("boolq", LABELS, _examples(rows), dev, test, why)


def halves(rows: Examples) -> tuple[Examples, Examples]:
    """In the order of the passages' hashes; one passage is in one half."""
    first, second = by_order(rows, (len(rows) // 2, len(rows) - len(rows) // 2), _passage)
    return first, second


def _passage(row: Example) -> str:
    return text_key(row.second or "")


def _examples(rows: Sequence[TableRow]) -> Examples:
    found: list[Example] = []
    for row in rows:
        key = next((key for key in KEYS if key in row.fields), None)
        if key is None:
            raise UsageError(f"{row.where}: no answer; {json.dumps(sorted(row.fields))}")
        plain = TableRow(row.where, {**row.fields, key: row.label(key).lower()})
        found += examples_of([plain], Columns("question", key, "passage"), ANSWERS)
    return tuple(found)
