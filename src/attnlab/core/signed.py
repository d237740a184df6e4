"""Files that prove to be what was written: JSON with its own hash, and entries of a manifest."""

import json
import os
from pathlib import Path
from typing import Any

from attnlab.core.config import Settings, content_hash
from attnlab.core.errors import STORAGE_ERRNOS, IntegrityError, from_os_error, storage_errors
from attnlab.core.files import read_json, sha256_file, write_text


class FileEntry(Settings):
    """Size and SHA-256 that a file must have."""

    size: int
    sha256: str


def entry_of(path: Path) -> FileEntry:
    """Size and SHA-256 of a file as it is now."""
    with storage_errors(path, IntegrityError):
        return FileEntry(size=path.stat().st_size, sha256=sha256_file(path))


def check_entry(path: Path, entry: FileEntry, *, deep: bool = True) -> str:
    """'' when the file is what the entry says, else a sentence; `deep` reads every byte.

    StorageError where the disk cannot tell: then nobody knows whether the file is damaged.
    """
    if path.is_symlink() or not path.is_file():
        return "not a plain file" if os.path.lexists(path) else "missing"
    try:
        size = path.stat().st_size
        if size != entry.size:
            return f"{size} bytes, {entry.size} were written"
        return "SHA-256 differs" if deep and sha256_file(path) != entry.sha256 else ""
    except OSError as error:
        if error.errno in STORAGE_ERRNOS:
            raise from_os_error(path, error, IntegrityError) from None
        return f"unreadable: {error.strerror or error}"


def signed_text(value: dict[str, Any]) -> str:
    """The JSON of an object with the hash of its own content in `sha256`."""
    signed = {**value, "sha256": content_hash(value)}
    return json.dumps(signed, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def write_signed(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object with the hash of its own content in `sha256`."""
    write_text(path, signed_text(value))


def read_signed(path: Path, newest: int | None = None) -> dict[str, Any]:
    """The object without its `sha256`; a single changed byte raises IntegrityError.

    `newest`: a file of a later format than this is refused with that reason.
    """
    found = read_json(path)
    if newest is not None:
        refuse_newer(path, found, newest)
    if not isinstance(found, dict):
        raise IntegrityError(f"{path}: not what was written")
    value = {key: item for key, item in found.items() if key != "sha256"}
    try:
        # the text too: a flipped bit in a space or in the order of keys is still damage
        same = path.read_bytes() == signed_text(value).encode()
    except OSError as error:
        raise from_os_error(path, error, IntegrityError) from None
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{path}: unreadable: {error}") from None
    if not same:
        raise IntegrityError(f"{path}: not what was written (its own SHA-256 differs)")
    return value


def refuse_newer(path: Path, value: object, newest: int) -> None:
    """A format this version does not know is refused, and nothing is touched."""
    number = value.get("format") if isinstance(value, dict) else None
    if isinstance(number, int) and number > newest:
        raise IntegrityError(
            f"{path}: written by a newer attnlab (format {number}, this one reads {newest})"
        )
