"""Atomic folders: one appears or disappears as a whole, and one process at a time changes it."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from attnlab.core.errors import RunInUseError, StorageError, storage_errors
from attnlab.core.files import PARTIAL, make_folder, sync

LOCK = ".lock"
LOCK_SECONDS = 0.5  # long enough for a process that is just exiting


def partial_path(target: Path) -> Path:
    """Return the temporary name under which a folder is written."""
    return target.with_name(PARTIAL + target.name)


def commit_folder(target: Path, files: Iterable[tuple[str, bytes]], exist_ok: bool = False) -> None:
    """Write (name, bytes) files to a temporary folder, fsync it, then rename it to `target`.

    Before the rename nobody reads the folder, so its files are written first and synced together:
    the first fsync waits for most of the others. `exist_ok`: the temporary folder may exist,
    because other processes have written their files into it already.
    """
    partial = partial_path(target)
    at = partial
    try:
        partial.mkdir(exist_ok=exist_ok)
        for name, data in files:
            at = partial / name
            at.write_bytes(data)
        for at in (*sorted(partial.iterdir()), partial):
            sync(at)
        at = target
        remove_folder(target)  # an existing one did not verify
        os.rename(partial, target)
        sync(target.parent)
    except OSError as error:
        with suppress(StorageError):  # report the first error, not one of the clean-up
            remove_folder(partial)
        raise StorageError(f"{at}: {error.strerror or error}") from None


def remove_folder(path: Path) -> None:
    """Rename a folder to a temporary name, then delete it: nobody sees it half deleted."""
    with storage_errors(path):
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.is_dir():
            doomed = path
            if not path.name.startswith(PARTIAL):
                doomed = path.with_name(f"{PARTIAL}old-{path.name}")
                os.rename(path, doomed)
            shutil.rmtree(doomed)


def list_names(folder: Path) -> list[str]:
    """List the names in a folder in order; an absent folder has none."""
    with storage_errors(folder), suppress(FileNotFoundError):
        return sorted(os.listdir(folder))
    return []


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create the folder if needed, lock it, and delete what a killed process left half written."""
    with storage_errors(folder):
        make_folder(folder)
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(timeout=LOCK_SECONDS, poll_interval=0.05)
        except Timeout:
            raise RunInUseError(f"{folder}: another process trains here") from None
    try:
        for name in list_names(folder):
            if name.startswith(PARTIAL):
                remove_folder(folder / name)
        yield
    finally:
        lock.release()
