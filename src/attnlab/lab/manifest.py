"""MANIFEST.json: the size and SHA-256 of every file of a run, and of itself.

open    (sealed: false)  a run under way: covers study.json; rows and artefacts carry their own hash
sealed  (sealed: true)   nothing is being written: covers every file, and no other file may exist
A manifest is replaced before the first change and after the last one, so that a kill at any
instant leaves a folder that verifies.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from attnlab.core.config import Settings, content_hash
from attnlab.core.errors import STORAGE_ERRNOS, IntegrityError, StorageError, from_os_error
from attnlab.core.files import read_json, sha256_file, write_text

FORMAT = 2  # 2: trials.db has a table of findings
MANIFEST = "MANIFEST.json"
PARTIAL = ".partial-"
LOCK, OWNER = ".lock", ".owner.json"
CHECKPOINTS = "checkpoints"


class FileEntry(Settings):
    """What a file must be."""

    size: int
    sha256: str


class Manifest(Settings):
    """The state of a run folder."""

    format: Literal[1, 2]
    run: str
    complete: bool
    sealed: bool
    files: dict[str, FileEntry]


def write_signed(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object with the hash of its own content in `sha256`."""
    write_text(path, _signed_text(value))


def read_signed(path: Path) -> dict[str, Any]:
    """The object without its `sha256`; a single changed byte raises IntegrityError."""
    found = read_json(path)
    refuse_newer(path, found)
    if not isinstance(found, dict):
        raise IntegrityError(f"{path}: not what was written")
    value = {key: item for key, item in found.items() if key != "sha256"}
    try:
        # the text too: a flipped bit in a space or in the order of keys is still damage
        same = path.read_bytes() == _signed_text(value).encode()
    except OSError as error:
        raise from_os_error(path, error, IntegrityError) from None
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{path}: unreadable: {error}") from None
    if not same:
        raise IntegrityError(f"{path}: not what was written (its own SHA-256 differs)")
    return value


def refuse_newer(path: Path, value: object) -> None:
    """A format this version does not know is refused, and nothing is touched."""
    number = value.get("format") if isinstance(value, dict) else None
    if isinstance(number, int) and number > FORMAT:
        raise IntegrityError(
            f"{path}: written by a newer attnlab (format {number}, this one reads {FORMAT})"
        )


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the folder's manifest."""
    write_signed(folder / MANIFEST, manifest.model_dump(mode="json"))


def read_manifest(folder: Path) -> Manifest:
    """The folder's manifest, or IntegrityError."""
    value = read_signed(folder / MANIFEST)
    try:
        return Manifest.model_validate(value)
    except ValueError:
        raise IntegrityError(f"{folder / MANIFEST}: not a manifest") from None


def entry_of(path: Path) -> FileEntry:
    """Size and SHA-256 of a file as it is now."""
    try:
        return FileEntry(size=path.stat().st_size, sha256=sha256_file(path))
    except OSError as error:
        raise from_os_error(path, error, IntegrityError) from None


def check_entry(path: Path, entry: FileEntry) -> str:
    """'' when the file is what the entry says, else a sentence; StorageError if none can tell."""
    if not path.is_file() or path.is_symlink():
        return "missing" if not path.exists() else "not a plain file"
    try:
        size = path.stat().st_size
        if size != entry.size:
            return f"has {size} bytes, {entry.size} were written"
        return "" if sha256_file(path) == entry.sha256 else "SHA-256 differs"
    except OSError as error:
        if error.errno in STORAGE_ERRNOS:
            raise StorageError(f"{path}: {error.strerror or error}") from None
        return f"unreadable: {error.strerror or error}"


def files_of(folder: Path) -> Iterator[str]:
    """Every entry of a run that is not a folder, by relative name; links are not followed.

    The manifest itself, the lock, the leftovers of a killed write and the checkpoints of a trial
    under way (they carry their own hashes) are not part of a run.
    """
    for name in _walk(folder, ""):
        if name not in (MANIFEST, LOCK, OWNER) and not name.startswith(f"{CHECKPOINTS}/"):
            yield name


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise from_os_error(folder, error, IntegrityError) from None
    for entry in found:
        if entry.name.startswith(PARTIAL):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name


def _signed_text(value: dict[str, Any]) -> str:
    signed = {**value, "sha256": content_hash(value)}
    return json.dumps(signed, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
