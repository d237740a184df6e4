"""The tables of trials.db, as SQL: exactly these, or the file is not one of ours."""

import sqlite3
from typing import Any

TABLE_SQL = (
    "CREATE TABLE trials (id TEXT PRIMARY KEY, seed INTEGER NOT NULL, config TEXT NOT NULL, "
    "state TEXT NOT NULL, metrics TEXT NOT NULL, reasons TEXT NOT NULL, artefacts TEXT NOT NULL, "
    "sha256 TEXT NOT NULL, cost TEXT NOT NULL, error TEXT NOT NULL, note_sha256 TEXT NOT NULL)"
)
FINDINGS_SQL = (
    "CREATE TABLE findings (trial TEXT NOT NULL, position INTEGER NOT NULL, name TEXT NOT NULL, "
    "moment TEXT NOT NULL, verdict TEXT NOT NULL, number REAL, threshold REAL, "
    "sentence TEXT NOT NULL, evidence TEXT NOT NULL, PRIMARY KEY (trial, position))"
)
TALLY_SQL = "CREATE TABLE tally (run TEXT NOT NULL, rows INTEGER NOT NULL, total TEXT NOT NULL)"
Findings = tuple[tuple[Any, ...], ...]


def create_tables(db: sqlite3.Connection) -> None:
    """All tables of a new store."""
    for table in (TABLE_SQL, FINDINGS_SQL, TALLY_SQL):
        db.execute(table)


def has_findings(db: sqlite3.Connection) -> bool:
    """Whether the store has a table of findings: runs of format 1 have none."""
    query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'findings'"
    return bool(db.execute(query).fetchone()[0])


def is_ours(db: sqlite3.Connection) -> bool:
    """Whether the file holds the tables that were made, and nothing else."""
    schema = sorted(sql for (sql,) in db.execute("SELECT sql FROM sqlite_master") if sql)
    known = [TABLE_SQL, TALLY_SQL, *([FINDINGS_SQL] if has_findings(db) else [])]
    return schema == sorted(known)


def findings_by_trial(db: sqlite3.Connection) -> dict[str, Findings]:
    """Trial id -> its findings in order, each without trial and position."""
    grouped: dict[str, list[tuple[Any, ...]]] = {}
    if has_findings(db):
        for trial, _, *finding in db.execute("SELECT * FROM findings ORDER BY trial, position"):
            grouped.setdefault(trial, []).append(tuple(finding))
    return {trial: tuple(rows) for trial, rows in grouped.items()}
