"""Rows of a table with names over its columns: .csv, .tsv, .jsonl; each knows its line.

    rows.csv     a header, then a row a line; fields in "quotes" may hold commas and line ends
    rows.tsv     the same with tabs, and quotes that are plain characters (SST-2's files)
    rows.jsonl   one object a line; .ndjson too

What does not fit is one UsageError line that names the file and the line.
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

JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
TABLE_SUFFIXES = (".csv", ".tsv", *JSON_LINES_SUFFIXES)
SEPARATORS = ",;\t"  # of a .csv; the first that its header has
FIELD_LIMIT = 1 << 24  # characters of one field


@dataclass(frozen=True)
class TableRow:
    """The fields of a row by column; `where` is the file and line for a message about it."""

    where: str
    fields: Mapping[str, Any]

    def text(self, column: str) -> str:
        """A field that must hold a text with something in it; white space around it goes."""
        found = self._value(column)
        if not isinstance(found, str):
            raise UsageError(f"{self.where}: {column!r} must be a text, is {json.dumps(found)}")
        if not (stripped := found.strip()):
            raise UsageError(f"{self.where}: {column!r} is empty")
        return stripped

    def label(self, column: str) -> str:
        """A field that names a class: a text, a whole number, true or false."""
        found = self._value(column)
        if isinstance(found, bool):
            return str(found).lower()
        if isinstance(found, int):
            return str(found)
        if isinstance(found, str) and found.strip():
            return found.strip()
        shown = json.dumps(found)[:40]
        raise UsageError(f"{self.where}: {column!r} must name a class, is {shown}")

    def _value(self, column: str) -> Any:
        if column not in self.fields:
            hint = suggest(column, self.fields)
            raise UsageError(f"{self.where}: no column {column!r}; {hint}")
        return self.fields[column]


def read_table(path: Path, header: Sequence[str] | None = None) -> list[TableRow]:
    """All rows; `header` names the columns of a file that does not name them itself."""
    ending = path.suffix.lower()
    if ending not in TABLE_SUFFIXES:
        raise UsageError(f"{path}: a table ends in {', '.join(ENDINGS)}")
    text = read_text(path)
    objects = ending in JSON_LINES_SUFFIXES
    rows = list(_json_rows(path, text) if objects else _delimited_rows(path, text, header))
    if not rows:
        raise UsageError(f"{path}: a header and no row under it")
    return rows


def read_first_line(path: Path) -> list[str]:
    """The fields of the first line of a .csv or .tsv: names, or already a row."""
    text = read_text(path)
    return next(iter(_csv_lines(path, text)))[1]


def _json_rows(path: Path, text: str) -> Iterator[TableRow]:
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        where = f"{path}: line {number}"
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = getattr(error, "msg", None) or type(error).__name__
            raise UsageError(f"{where}: not JSON ({why})") from None
        if not isinstance(found, dict):
            raise UsageError(f"{where}: must be an object with named fields")
        yield TableRow(where, found)


def _delimited_rows(path: Path, text: str, header: Sequence[str] | None) -> Iterator[TableRow]:
    lines = _csv_lines(path, text)
    if header is None:
        _, header = next(lines)
        header = [name.strip() for name in header]
        doubled = next((name for name in header if header.count(name) > 1), None)
        if doubled is not None:
            raise UsageError(f"{path}: line 1: two columns are called {doubled!r}")
    for number, fields in lines:
        where = f"{path}: line {number}"
        if len(fields) != len(header):
            raise UsageError(f"{where}: {len(fields)} fields, the header has {len(header)}")
        yield TableRow(where, dict(zip(header, fields, strict=True)))


def _csv_lines(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Number of its first line, and fields, of every row that is not blank."""
    tabs = path.suffix.lower() == ".tsv"
    first = text.lstrip("\n").partition("\n")[0]
    separator = "\t" if tabs else next((c for c in SEPARATORS if c in first), ",")
    quoting = csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
    csv.field_size_limit(FIELD_LIMIT)
    reader = csv.reader(
        io.StringIO(text, newline=""), delimiter=separator, quoting=quoting, strict=True
    )
    found = False
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            if not found:  # separators and nothing between them
                raise UsageError(f"{path}: no field of this table holds anything") from None
            return
        except csv.Error as error:
            raise UsageError(f"{path}: line {number}: not a table ({error})") from None
        if any(field.strip() for field in fields):
            found = True
            yield number, fields
