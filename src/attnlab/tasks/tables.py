"""Tables with named columns from .csv, .tsv and .jsonl files.

    rows.csv     a header, then one row per line; fields in "quotes" may hold commas and line ends
    rows.tsv     the same with tabs, and quotes that are plain characters (SST-2's files)
    rows.jsonl   one object per line; .ndjson too

Every row knows its line; a fault raises a one-line UsageError that names the file and the line.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.tasks.corpus import read_text
from attnlab.tasks.texts import JSON_LINES_SUFFIXES, parse_json_lines

TABLE_SUFFIXES = (".csv", ".tsv", *JSON_LINES_SUFFIXES)
SEPARATORS = ",;\t"  # of a .csv: the first one that occurs in its header
FIELD_LIMIT = 1 << 24  # characters of one field


@dataclass(frozen=True)
class TableRow:
    """The fields of a row by column name; `where` is its file and line, for messages."""

    where: str
    fields: Mapping[str, Any]

    def text(self, column: str) -> str:
        """Return a field that must be a text and not empty, without white space at its ends."""
        value = self._value(column)
        if not isinstance(value, str):
            raise UsageError(f"{self.where}: {column!r} must be a text, is {json.dumps(value)}")
        if not (stripped := value.strip()):
            raise UsageError(f"{self.where}: {column!r} is empty")
        return stripped

    def label(self, column: str) -> str:
        """Return a field that names a class: a text, an integer, true or false."""
        value = self._value(column)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int):
            return str(value)
        if isinstance(value, str) and value.strip():
            return value.strip()
        shown = json.dumps(value)[:40]
        raise UsageError(f"{self.where}: {column!r} must name a class, is {shown}")

    def _value(self, column: str) -> Any:
        if column not in self.fields:
            hint = suggest(column, self.fields)
            raise UsageError(f"{self.where}: no column {column!r}; {hint}")
        return self.fields[column]


def read_table(path: Path, header: Sequence[str] | None = None) -> list[TableRow]:
    """Read all rows; `header` gives the column names of a file that has no header line."""
    suffix = path.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise UsageError(f"{path}: a table ends in {', '.join(TABLE_SUFFIXES)}")
    text = read_text(path)
    is_json = suffix in JSON_LINES_SUFFIXES
    rows = list(_json_rows(path, text) if is_json else _delimited_rows(path, text, header))
    if not rows:
        raise UsageError(f"{path}: a header without rows")
    return rows


def read_first_line(path: Path) -> list[str]:
    """Return the fields of the first line of a .csv or .tsv: column names, or already a row."""
    text = read_text(path)
    return next(iter(_csv_lines(path, text)))[1]


def _json_rows(path: Path, text: str) -> Iterator[TableRow]:
    for where, fields in parse_json_lines(path, text):
        if not isinstance(fields, dict):
            raise UsageError(f"{where}: must be an object with named fields")
        yield TableRow(where, fields)


def _delimited_rows(path: Path, text: str, header: Sequence[str] | None) -> Iterator[TableRow]:
    lines = _csv_lines(path, text)
    if header is None:
        _, header = next(lines)
        header = [name.strip() for name in header]
        duplicate = next((name for name in header if header.count(name) > 1), None)
        if duplicate is not None:
            raise UsageError(f"{path}: line 1: two columns are called {duplicate!r}")
    for number, fields in lines:
        where = f"{path}: line {number}"
        if len(fields) != len(header):
            raise UsageError(f"{where}: {len(fields)} fields, the header has {len(header)}")
        yield TableRow(where, dict(zip(header, fields, strict=True)))


def _csv_lines(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, fields) of every row that is not blank."""
    tabs = path.suffix.lower() == ".tsv"
    first = text.lstrip("\n").partition("\n")[0]
    separator = "\t" if tabs else next((c for c in SEPARATORS if c in first), ",")
    quoting = csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
    csv.field_size_limit(FIELD_LIMIT)
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, quoting=quoting, strict=True
    )
    any_row = False
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            if not any_row:  # the file has separators only
                raise UsageError(f"{path}: every field of this table is empty") from None
            return
        except csv.Error as error:
            raise UsageError(f"{path}: line {number}: not a table ({error})") from None
        if any(field.strip() for field in fields):
            any_row = True
            yield number, fields
