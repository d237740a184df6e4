"""Is every byte of a run what was written? Damage is a list of sentences, never an exception.

Only a disk that cannot be read raises (StorageError): then nobody knows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attnlab.core.errors import IntegrityError
from attnlab.core.signed import check_entry, read_signed
from attnlab.lab.artefacts import ARTEFACTS, KINDS, TRIAL_ID
from attnlab.lab.manifest import LOCK, MANIFEST, Manifest, files_of, read_manifest
from attnlab.lab.rows import artefacts_of, checked_row
from attnlab.lab.run_spec import (
    CSV,
    ENV,
    FIGURES,
    REPORT,
    RESULTS,
    STUDY,
    TRIALS,
    RunSpec,
    digest_of,
    read_run_spec,
)
from attnlab.lab.store import StoredRow, inspect_store

TRIES = 3  # a run may be resealed while we look at it


@dataclass(frozen=True)
class Verification:
    """The document of `attnlab verify --json`: `ok` means nothing is damaged, unfinished or not."""

    run: str
    complete: bool
    ok: bool
    digest: str | None  # of what is there
    problems: tuple[str, ...]


def verify_run(folder: Path, known: list[StoredRow] | None = None) -> Verification:
    """Check every file, row and hash of a run folder; reads only.

    `known`: the rows, if they were read and checked already and the file has not changed since.
    """
    before = _manifest_bytes(folder)
    found = _verify_once(folder, known)
    for _ in range(TRIES):
        now = _manifest_bytes(folder)
        if found.ok or now == before:
            break
        before, found = now, _verify_once(folder, known)
    return found


def _verify_once(folder: Path, known: list[StoredRow] | None) -> Verification:
    problems: list[str] = []
    spec = manifest = None
    try:
        manifest = read_manifest(folder)
    except IntegrityError as error:
        problems.append(_short(folder, error))
    try:
        spec = read_run_spec(folder)
        if manifest is not None and manifest.run != spec.run:
            problems.append(f"{MANIFEST}: belongs to run {manifest.run[:40]}")
    except IntegrityError as error:
        problems.append(_short(folder, error))
    sealed = manifest is not None and manifest.sealed
    problems += _files(folder, manifest)
    rows: list[StoredRow] = []
    if spec is not None:
        rows, wrong = (known, []) if known is not None else _store(folder, spec, sealed)
        problems += wrong
        # a sealed manifest has just been checked against every file: compare with it, not again
        problems += _artefacts(folder, rows, manifest if sealed else None)
    return Verification(
        run=folder.resolve().name,
        complete=manifest is not None and manifest.complete and manifest.sealed,
        ok=not problems,
        digest=digest_of(spec, [row.sha256 for row in rows]) if spec and not problems else None,
        problems=tuple(dict.fromkeys(problems)),
    )


def _files(folder: Path, manifest: Manifest | None) -> Iterator[str]:
    """What the manifest says against what is there."""
    known = manifest.files if manifest is not None else {}
    for name, entry in known.items():
        problem = check_entry(folder / name, entry)
        if problem:
            yield f"{name}: {problem}"
    try:
        read_signed(folder / ENV)
        present = list(files_of(folder))
    except IntegrityError as error:
        yield _short(folder, error)
        return
    for name in present:
        if name in known:
            continue
        if manifest is None or manifest.sealed or not _belongs(name):
            yield f"{name}: not in the manifest" if manifest else f"{name}: no manifest covers it"
    lock = folder / LOCK
    if lock.is_symlink() or (lock.exists() and lock.stat().st_size):
        yield f"{LOCK}: not an empty file"


def _belongs(name: str) -> bool:
    """Whether a run under way may hold this file without the manifest naming it."""
    if name in (STUDY, ENV, TRIALS, f"{TRIALS}-journal", RESULTS, REPORT, CSV):
        return True
    top, *rest = name.split("/")
    if top == FIGURES:
        return bool(rest)
    return (
        top == ARTEFACTS and len(rest) == 2 and TRIAL_ID.fullmatch(rest[0]) is not None
    ) and rest[1] in KINDS


def _store(folder: Path, spec: RunSpec, still: bool) -> tuple[list[StoredRow], list[str]]:
    path = folder / TRIALS
    if not path.is_file() or path.is_symlink():
        return [], [f"{TRIALS}: missing"]
    rows, problems = inspect_store(path, spec.run, still)
    for row in rows:
        try:
            checked_row(folder, row, spec.study, spec.version)
        except IntegrityError as error:
            problems.append(f"{TRIALS}: {error}")
    return rows, problems


def _artefacts(folder: Path, rows: list[StoredRow], manifest: Manifest | None) -> Iterator[str]:
    for row in rows:
        try:
            entries = artefacts_of(row)
        except IntegrityError:
            continue  # said by _store already
        for file, entry in entries.items():
            name = f"{ARTEFACTS}/{row.id}/{file}"
            if manifest is None:
                problem = check_entry(folder / name, entry)
            else:
                problem = "" if manifest.files.get(name) == entry else "not what its trial wrote"
            if problem:
                yield f"{name}: {problem}"


def _manifest_bytes(folder: Path) -> bytes:
    try:
        return (folder / MANIFEST).read_bytes()
    except OSError:
        return b""


def _short(folder: Path, error: Exception) -> str:
    return str(error).removeprefix(f"{folder}/")
