"""trials.db: one row a trial, each with its own SHA-256, all of them with a running tally.

SQLite does not notice a flipped bit inside a row, hence the hashes: `sha256` over everything that
must be the same on every run, `note_sha256` over cost and error text, which may differ. The tally
(number of rows and sum of their hashes) changes in the same transaction as the rows, so a lost
row is noticed too. One process writes; rollback journal, because SQLite before 3.51.3 can corrupt
a WAL and one grouped commit every 0.2 s needs no WAL.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from attnlab.core.config import content_hash
from attnlab.core.errors import STORAGE_ERRNOS, IntegrityError, StorageError, from_os_error
from attnlab.lab.schema import (
    FINDINGS_SQL,
    Findings,
    create_tables,
    findings_by_trial,
    has_findings,
    is_ours,
)
from attnlab.lab.trial import FINISHED

WRAP = 1 << 256
CHUNK = 1 << 20
DISK = {  # primary SQLite codes that mean "the disk refused", not "the file is damaged"
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
}


@dataclass(frozen=True)
class StoredRow:
    """A row as text; the JSON columns are canonical.

    `findings` are rows of a table of their own: name, moment, verdict, number, threshold, sentence,
    evidence as JSON.
    """

    id: str
    seed: int
    config: str
    state: str
    metrics: str
    reasons: str
    artefacts: str
    cost: str
    error: str
    findings: Findings = ()

    @property
    def values(self) -> tuple[str | int, ...]:
        """The fields in order; `astuple` would copy each, at ten times the cost."""
        return tuple(vars(self)[name] for name in NAMES)

    @cached_property
    def sha256(self) -> str:
        """Over everything deterministic; without findings the same as in format 1."""
        values = list(self.values[:7])
        return content_hash(
            [*values, [list(f) for f in self.findings]] if self.findings else values
        )

    @cached_property
    def note_sha256(self) -> str:
        """Over the rest; the id inside, so that notes cannot change places."""
        return content_hash([self.id, self.cost, self.error])


NAMES = tuple(f.name for f in fields(StoredRow) if f.name != "findings")
COLUMNS = ", ".join(NAMES)


def create_store(path: Path, run: str) -> None:
    """An empty database for a run."""
    with _disk(path), closing(sqlite3.connect(path, isolation_level=None)) as db:
        _prepare(db)
        db.execute("BEGIN IMMEDIATE")
        create_tables(db)
        db.execute("INSERT INTO tally VALUES (?, 0, ?)", (run, f"{0:064x}"))
        db.execute("COMMIT")


class StoreWriter:
    """The one connection that writes; belongs to whoever holds the run's lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _disk(path):
            self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", 10, uri=True)
            self._db.isolation_level = None
            _prepare(self._db)
            if not has_findings(self._db):  # a run begun by a version that had none
                self._db.execute(FINDINGS_SQL)

    def put(self, rows: Iterable[StoredRow]) -> None:
        """Commit rows together; a finished row is never replaced."""
        with _disk(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for row in rows:
                    self._put_row(row)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite itself rolls back when the disk is full
                    self._db.execute("ROLLBACK")
                raise

    def _put_row(self, row: StoredRow) -> None:
        found = self._db.execute("SELECT state, sha256 FROM trials WHERE id = ?", (row.id,))
        old: tuple[str, str] | None = found.fetchone()
        if old is not None and old[0] in FINISHED:
            return
        values = (*row.values, row.sha256, row.note_sha256)
        marks = ", ".join("?" * len(values))
        self._db.execute(
            f"INSERT OR REPLACE INTO trials ({COLUMNS}, sha256, note_sha256) VALUES ({marks})",
            values,
        )
        self._db.execute("DELETE FROM findings WHERE trial = ?", (row.id,))
        self._db.executemany(
            "INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(row.id, position, *finding) for position, finding in enumerate(row.findings)],
        )
        rows, total = self._db.execute("SELECT rows, total FROM tally").fetchone()
        change = int(row.sha256, 16) - (int(old[1], 16) if old else 0)
        self._db.execute(
            "UPDATE tally SET rows = ?, total = ?",
            (rows + (old is None), f"{(int(total, 16) + change) % WRAP:064x}"),
        )

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()


def inspect_store(path: Path, run: str, still: bool = False) -> tuple[list[StoredRow], list[str]]:
    """Rows that are what was written, sorted by id, and a sentence for everything that is not.

    `still`: nothing is writing, so read the file alone and change nothing around it.
    """
    mode = "mode=ro&immutable=1" if still else "mode=rw"
    try:
        with suppress(sqlite3.Error):
            found = _inspect(path, run, mode)
            if not found[1]:
                return found
        _probe(path)
        return _inspect(path, run, mode)  # the disk failed for a moment, or it is damage
    except (sqlite3.Error, OverflowError, ValueError, TypeError, MemoryError) as error:
        return [], [f"{path.name}: not a readable trial store: {error}"]


def _probe(path: Path) -> None:
    """StorageError where the disk or the system refuses: SQLite calls both "malformed"."""
    try:
        os.listdir(path.parent)
        with path.open("rb", buffering=0) as file:
            offset = 0
            while part := os.pread(file.fileno(), CHUNK, offset):  # the call that SQLite reads with
                offset += len(part)
    except OSError as error:
        if error.errno in STORAGE_ERRNOS:
            raise from_os_error(path, error, IntegrityError) from None


def _inspect(path: Path, run: str, mode: str) -> tuple[list[StoredRow], list[str]]:
    problems: list[str] = []
    rows: list[StoredRow] = []
    total = 0
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", 10, uri=True)) as db:
        db.execute("PRAGMA trusted_schema = OFF")
        db.execute("BEGIN")  # one snapshot for rows and tally, also while the driver commits
        if not is_ours(db):
            return [], [f"{path.name}: not the tables that were made"]
        health = [text for (text,) in db.execute("PRAGMA integrity_check(3)")]
        if health != ["ok"]:
            problems.append(f"{path.name}: {health[0].splitlines()[-1].strip()}")
        findings = findings_by_trial(db)
        found = db.execute(f"SELECT {COLUMNS}, sha256, note_sha256 FROM trials ORDER BY id")
        for values in found:
            row = _row_of(values[:-2], findings.pop(values[0], ()))
            if (row.sha256, row.note_sha256) == values[-2:]:
                rows.append(row)
                total = (total + int(row.sha256, 16)) % WRAP
            else:
                problems.append(f"{path.name}: trial {row.id!s:.40}: SHA-256 of its row differs")
        tally = db.execute("SELECT run, rows, total FROM tally").fetchall()
    if findings:
        problems.append(f"{path.name}: findings of trials that are not stored")
    if not problems and tally != [(run, len(rows), f"{total:064x}")]:
        problems.append(f"{path.name}: rows are missing or do not belong to this run")
    return rows, problems


def _row_of(values: tuple[Any, ...], findings: Findings) -> StoredRow:
    """StoredRow(*values): a frozen class sets its fields one by one, at six times the cost."""
    row = object.__new__(StoredRow)
    vars(row).update(zip(NAMES, values, strict=True), findings=findings)
    return row


def read_rows(path: Path, run: str) -> list[StoredRow]:
    """All rows sorted by id; the first thing wrong raises IntegrityError."""
    rows, problems = inspect_store(path, run)
    if problems:
        raise IntegrityError(f"{path.parent.name}/{problems[0]}")
    return rows


def count_states(path: Path) -> dict[str, int]:
    """Trials by state, unchecked: for listing many runs at once.

    Not `mode=ro`: what a killed commit left half done, SQLite must be allowed to take back.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", 2, uri=True)) as db:
            return dict(db.execute("SELECT state, count(*) FROM trials GROUP BY state"))
    except (sqlite3.Error, ValueError, TypeError, MemoryError) as error:
        raise IntegrityError(f"{path}: not a readable trial store: {error}") from None


def parse_object(text: str, check: Callable[[Any], bool], what: str) -> dict[str, Any]:
    """A JSON object whose values all pass `check`; anything else raises IntegrityError."""
    if text == "{}":  # most reasons and artefacts of most trials
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError, TypeError) as error:
        raise IntegrityError(f"{what}: not the JSON that was written: {error}") from None
    if not isinstance(value, dict) or not all(check(item) for item in value.values()):
        raise IntegrityError(f"{what}: not what a trial writes")
    return value


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA synchronous = EXTRA")  # FULL, and the journal's removal reaches the disk
    db.execute("PRAGMA trusted_schema = OFF")


@contextmanager
def _disk(path: Path) -> Iterator[None]:
    """SQLite's errors as ours: the disk refused, or the file is damaged."""
    try:
        yield
    except sqlite3.Error as error:
        if not _refused(error):
            _probe(path)
        kind = StorageError if _refused(error) or _healthy(path) else IntegrityError
        raise kind(f"{path}: {error}") from None


def _healthy(path: Path) -> bool:
    """Whether it can be read from end to end now: then the disk failed for a moment."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", 2, uri=True)) as db:
            return db.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]
    except sqlite3.Error:
        return False


def _refused(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DISK
