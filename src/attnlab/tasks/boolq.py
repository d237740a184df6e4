"""BoolQ: yes/no questions about a passage; dev is split into a half to choose by and one to report.

    train = combined.jsonl minus the questions of dev.jsonl and test.jsonl      (9,427)
    dev, test = dev.jsonl by the hash of the passage                            (1,636, 1,634)

BoolQ's test.jsonl has no answers; a test file with answers is used as it is. Questions about one
passage stay together. 62 % of the answers are yes (2,033 of the 3,270 in dev.jsonl), so that a
constant answer has accuracy 0.6217.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.tasks.labelled import (
    Columns,
    Example,
    Examples,
    LabelledData,
    split_in_halves,
    text_key,
    to_examples,
)
from attnlab.tasks.tables import TableRow, read_table

LABELS = ("no", "yes")
ANSWERS = ("false", "true")
ANSWER_KEYS = ("answer", "label")  # column with the answer: the first that a row has


def boolq(files: Mapping[str, Path] | None = None) -> LabelledData:
    """Read BoolQ from the asset, or from files by split name (train, dev, test)."""
    if files is None:
        from attnlab.assets import get

        named = {file.stem: file for file in get("boolq").files}
        files = {"train": named["combined"], "dev": named["dev"], "test": named["test"]}
    dev, test = (read_table(files[name]) if name in files else [] for name in ("dev", "test"))
    held_out = {text_key(row.text("question")) for row in (*dev, *test)}
    rows = [r for r in read_table(files["train"]) if text_key(r.text("question")) not in held_out]
    if not rows:
        raise UsageError(f"{files['train']}: every question is in dev or test as well")
    train, dev_examples = _examples(rows), _examples(dev)
    if test and set(ANSWER_KEYS) & test[0].fields.keys():
        return LabelledData("boolq", LABELS, train, dev_examples, _examples(test))
    halves = split_in_halves(
        dev_examples, str(files["dev"]), lambda row: text_key(row.second or "")
    )
    note = "dev is cut in two by passage: one half chooses, the other is reported"
    return LabelledData("boolq", LABELS, train, *halves, note)


def _examples(rows: Sequence[TableRow]) -> Examples:
    examples: list[Example] = []
    for row in rows:
        key = next((key for key in ANSWER_KEYS if key in row.fields), None)
        if key is None:
            raise UsageError(f"{row.where}: no answer; {json.dumps(sorted(row.fields))}")
        lower = TableRow(row.where, {**row.fields, key: row.label(key).lower()})
        examples += to_examples([lower], Columns("question", key, "passage"), ANSWERS)
    return tuple(examples)
