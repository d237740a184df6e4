"""SNLI: does the second sentence follow from the first, contradict it, or neither?

minilm-l6 was trained on pairs from SNLI, so its score here demonstrates how a model reads pairs; it
is not a test of the encoder. Pairs on which the annotators did not agree ("-") are left out. All
pairs about one picture (whose caption is the first sentence) stay in one split.
"""

from collections.abc import Sequence
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
from attnlab.tasks.tables import read_table

LABELS = ("entailment", "neutral", "contradiction")
COLUMNS = Columns("sentence1", "gold_label", "sentence2")
UNDECIDED = "-"
NOTE = "minilm-l6 was trained on SNLI's pairs: a demonstration, not a test"


def snli() -> LabelledData:
    """Read the asset's part of SNLI; SNLI's test split gives dev and test, one half each."""
    from attnlab.assets import get

    files = get("snli").files
    parts = {name: _examples(_file(files, name)) for name in ("train", "test")}
    dev, test = split_in_halves(parts["test"], "snli", _premise_key)
    held_out = {_premise_key(row) for row in (*dev, *test)}
    train = tuple(row for row in parts["train"] if _premise_key(row) not in held_out)
    return LabelledData("snli", LABELS, train, dev, test, NOTE)


def _file(files: Sequence[Path], name: str) -> Path:
    path = next((file for file in files if f"_{name}" in file.stem), None)
    if path is None:
        raise UsageError(f"snli: no file of the {name} split")
    return path


def _examples(path: Path) -> Examples:
    rows = [row for row in read_table(path) if row.label(COLUMNS.label) != UNDECIDED]
    return to_examples([r for r in rows if r.fields.get("sentence2")], COLUMNS, LABELS)


def _premise_key(row: Example) -> str:
    return text_key(row.text)
