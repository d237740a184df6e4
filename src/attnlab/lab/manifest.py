"""MANIFEST.json: the size and SHA-256 of every file of a run, and of itself.

open    (sealed: false)  a run under way: covers study.json; rows and artefacts carry their own hash
sealed  (sealed: true)   nothing is being written: covers every file, and no other file may exist
A manifest is replaced before the first change and after the last one, so that a kill at any
instant leaves a folder that verifies.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from attnlab.core.config import Settings
from attnlab.core.errors import IntegrityError, storage_errors
from attnlab.core.files import PARTIAL
from attnlab.core.signed import FileEntry, read_signed, write_signed

FORMAT = 2  # 2: trials.db has a table of findings
MANIFEST = "MANIFEST.json"
LOCK, OWNER = ".lock", ".owner.json"
CHECKPOINTS = "checkpoints"


class Manifest(Settings):
    """The state of a run folder."""

    format: Literal[1, 2]
    run: str
    complete: bool
    sealed: bool
    files: dict[str, FileEntry]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the folder's manifest."""
    write_signed(folder / MANIFEST, manifest.model_dump(mode="json"))


def read_manifest(folder: Path) -> Manifest:
    """The folder's manifest, or IntegrityError."""
    value = read_signed(folder / MANIFEST, newest=FORMAT)
    try:
        return Manifest.model_validate(value)
    except ValueError:
        raise IntegrityError(f"{folder / MANIFEST}: not a manifest") from None


def files_of(folder: Path) -> Iterator[str]:
    """Every entry of a run that is not a folder, by relative name; links are not followed.

    The manifest itself, the lock, the leftovers of a killed write and the checkpoints of a trial
    under way (they carry their own hashes) are not part of a run.
    """
    for name in _walk(folder, ""):
        if name not in (MANIFEST, LOCK, OWNER) and not name.startswith(f"{CHECKPOINTS}/"):
            yield name


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    with storage_errors(folder, IntegrityError), os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.name.startswith(PARTIAL):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name
