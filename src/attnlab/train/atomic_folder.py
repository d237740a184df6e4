"""Folders that appear and vanish whole, and one process at a time that may change them."""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from attnlab.core.errors import RunInUseError, StorageError
from attnlab.core.files import make_folder

PARTIAL = ".partial-"  # nothing under such a name counts
LOCK = ".lock"
WAIT_SECONDS = 0.5  # long enough for a process that is just leaving


def partial_path(target: Path) -> Path:
    """The temporary name of a folder that is being written."""
    return target.with_name(PARTIAL + target.name)


def commit_folder(target: Path, files: Iterable[tuple[str, bytes]], begun: bool = False) -> None:
    """Write a folder under a temporary name, have it on the disk, then give it its name.

    Until the rename the folder counts for nothing, so its files need no care of their own; they
    are synchronised together, because the first wait serves most of the others. `begun`: others
    have written their files under the temporary name already.
    """
    partial = partial_path(target)
    at = partial
    try:
        partial.mkdir(exist_ok=begun)
        for name, data in files:
            at = partial / name
            at.write_bytes(data)
        for at in (*sorted(partial.iterdir()), partial):
            _sync(at)
        at = target
        remove_folder(target)  # one that is there did not verify
        os.rename(partial, target)
        _sync(target.parent)
    except OSError as error:
        with suppress(StorageError):  # the first refusal is the one to tell
            remove_folder(partial)
        raise StorageError(f"{at}: {error.strerror or error}") from None


def remove_folder(path: Path) -> None:
    """Take a folder's name away first, then its files: half of one is never seen."""
    try:
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            gone = path
            if not path.name.startswith(PARTIAL):
                gone = path.with_name(f"{PARTIAL}old-{path.name}")
                os.rename(path, gone)
            shutil.rmtree(gone)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from None


def list_names(folder: Path) -> list[str]:
    """The names in a folder; none if it is not there."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror or error}") from None


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Make the folder if need be and own it, rid of what a killed process left half done."""
    try:
        make_folder(folder)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=WAIT_SECONDS, poll_interval=0.05)
    except Timeout:
        raise RunInUseError(f"{folder}: another process trains here") from None
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror or error}") from None
    try:
        for name in list_names(folder):
            if name.startswith(PARTIAL):
                remove_folder(folder / name)
        yield
    finally:
        lock.release()


def sha256_of(data: bytes) -> str:
    """SHA-256 of the bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file that may be larger than the memory, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
