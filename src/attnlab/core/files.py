"""Files that are whole or absent: write beside, fsync, rename, fsync the folder."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnlab.core.errors import IntegrityError, StorageError, refusal


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, all or nothing, also through power loss."""
    handle, partial = -1, ""
    try:
        make_folder(path.parent)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o644)
        os.replace(partial, path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):  # a disk that refuses the clean-up too: the first reason counts
            if partial:
                os.unlink(partial)
        raise StorageError(f"{path}: {error.strerror or error}") from None


def make_folder(folder: Path) -> None:
    """The folder, and those around it that are missing, with their names on the disk; OSError."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)  # otherwise power loss takes what was stored in it along


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text` in UTF-8, all or nothing."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Replace `path` by readable JSON: keys in the order given, no NaN."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The JSON in `path`; NaN, doubled keys or broken text raise IntegrityError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise IntegrityError(f"{path}: missing") from None
    except OSError as error:
        raise refusal(path, error, IntegrityError) from None
    except UnicodeDecodeError as error:
        raise IntegrityError(f"{path}: unreadable: {error}") from None
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_doubles)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{path}: not the JSON that was written: {error}") from None


def sha256_file(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_files(paths: Iterable[Path]) -> str:
    """SHA-256 of the files' own, one after the other."""
    return hashlib.sha256("".join(map(sha256_file, paths)).encode()).hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("a key occurs twice")
    return dict(pairs)
