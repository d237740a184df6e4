"""SNLI: does the second sentence follow from the first, contradict it, or neither?

minilm-l6 was trained on pairs from SNLI, so what it scores here demonstrates how pairs are read;
it is not a test of the encoder. Pairs on which the annotators did not agree ("-") are left out.
All pairs about one picture (its caption comes first in each) stay in one split.
"""

from collections.abc import Sequence
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.tasks.labelled import (
    Columns,
    Example,
    Examples,
    LabelledData,
    split_by_sizes,
    to_examples,
)
from attnlab.tasks.labelled import text_key as key_of
from attnlab.tasks.tables import read_table

LABELS = ("entailment", "neutral", "contradiction")
COLUMNS = Columns("sentence1", "gold_label", "sentence2")
UNDECIDED = "-"
NOTE = "minilm-l6 was trained on SNLI's pairs: a demonstration, not a test"


def snli(files: Sequence[Path] | None = None) -> LabelledData:
    """Train from the subset; SNLI's test split in two halves, to choose by and to report."""
    if files is None:
        from attnlab.assets import get

        files = get("snli").files
    part = {name: _examples(_file(files, name)) for name in ("train", "test")}
    size = len(part["test"])
    dev, test = split_by_sizes(part["test"], (size // 2, size - size // 2), _premise)
    seen = {_premise(row) for row in (*dev, *test)}
    train = tuple(row for row in part["train"] if _premise(row) not in seen)
    return LabelledData("snli", LABELS, train, dev, test, NOTE)


def _file(files: Sequence[Path], name: str) -> Path:
    found = next((file for file in files if f"_{name}" in file.stem), None)
    if found is None:
        raise UsageError(f"snli: no file of the {name} split")
    return found


def _examples(path: Path) -> Examples:
    rows = [row for row in read_table(path) if row.label(COLUMNS.label) != UNDECIDED]
    return to_examples([r for r in rows if r.fields.get("sentence2")], COLUMNS, LABELS)


def _premise(row: Example) -> str:
    return key_of(row.text)
