"""Files that are whole or absent: write beside, fsync, rename, fsync the folder."""

import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnlab.core.config import content_hash
from attnlab.core.errors import IntegrityError, UsageError, from_os_error, storage_errors

PARTIAL = ".partial-"  # begins the names of files and folders that are being written


def write_bytes(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, all or nothing, also through power loss."""
    with storage_errors(path):
        make_folder(path.parent)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=PARTIAL)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(partial, 0o644)
            os.replace(partial, path)
        except OSError:
            with suppress(OSError):  # the first error is reported, whatever the clean-up meets
                os.unlink(partial)
            raise
        sync(path.parent)


def make_folder(folder: Path) -> None:
    """Create the folder and its missing parents so that they survive a power loss; OSError."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync(folder.parent)  # otherwise a power loss removes the folder with all it holds


def write_text(path: Path, text: str) -> None:
    """Replace `path` by `text` in UTF-8, all or nothing."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Replace `path` by readable JSON: keys in the order given, no NaN."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """The JSON in `path`; NaN, duplicate keys and invalid JSON raise IntegrityError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise IntegrityError(f"{path}: missing") from None
    except OSError as error:
        raise from_os_error(path, error, IntegrityError) from None
    except UnicodeDecodeError as error:
        raise IntegrityError(f"{path}: unreadable: {error}") from None
    try:
        return json.loads(
            text, parse_constant=_refuse_nan, object_pairs_hook=_refuse_duplicate_keys
        )
    except (ValueError, RecursionError) as error:
        raise IntegrityError(f"{path}: not valid JSON: {error}") from None


def sha256_file(path: Path) -> str:
    """SHA-256 of the file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_files(paths: Iterable[Path]) -> str:
    """SHA-256 over the SHA-256 of each file, in the order given."""
    return hashlib.sha256("".join(map(sha256_file, paths)).encode()).hexdigest()


def sha256_of_paths(*names: str) -> str:
    """One hash over the files that these names mean, of folders all files; '' where there is none.

    A name that is no path here, such as that of a model on a hub, adds nothing.
    """
    lines = []
    for path in (Path(name) for name in names if name):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        lines += [f"{file.name} {sha256_file(file)}" for file in files if file.is_file()]
    return content_hash(lines) if lines else ""


def sha256_of_setting(name: str, value: object, known: Collection[str] = ()) -> str:
    """SHA-256 of the file that a setting names; '' where it names none or one of `known`."""
    if not isinstance(value, str) or value in ("", *known):
        return ""
    if not Path(value).is_file():
        why = f"neither {', '.join(known)} nor a file" if known else "no file"
        raise UsageError(f"{name} {value!r}: {why}")
    return sha256_file(Path(value))


def sync(path: Path) -> None:
    """Write a file, or a folder's list of names, to the disk: then it survives a power loss."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refuse_nan(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError("duplicate key")
    return dict(pairs)
