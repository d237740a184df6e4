"""A run folder comes into being all at once, and loses what killed writes left behind.

One process owns it while it writes; the operating system frees the lock when that process dies.
"""

import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from attnlab.core.errors import RunInUseError, StorageError, storage_errors
from attnlab.core.files import PARTIAL, make_folder, sync, write_json
from attnlab.core.signed import entry_of, write_signed
from attnlab.lab.manifest import FORMAT, LOCK, OWNER, Manifest, write_manifest
from attnlab.lab.run_spec import ENV, STUDY, TRIALS, RunSpec
from attnlab.lab.store import create_store

WAIT_SECONDS = 0.5  # for the lock: long enough for a process that is just leaving
STALE_SECONDS = 600  # a folder being made for longer than this belongs to a killed process


def open_manifest(folder: Path, spec: RunSpec, ended: bool = False) -> Manifest:
    """The manifest of a run under way, or of one that ended and is added to: only study.json."""
    files = {STUDY: entry_of(folder / STUDY)}
    return Manifest(format=FORMAT, run=spec.run, complete=ended, sealed=False, files=files)


def create_folder(folder: Path, spec: RunSpec) -> None:
    """Make the folder under another name and rename it: there is never half a run."""
    with storage_errors(folder):
        make_folder(folder.parent)
        _remove_stale(folder.parent)
        draft = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{folder.name}-", dir=folder.parent))
        draft.chmod(0o755)
    try:
        write_json(draft / STUDY, spec.model_dump(mode="json"))
        write_signed(draft / ENV, {"sessions": []})
        create_store(draft / TRIALS, spec.run)
        write_manifest(draft, open_manifest(draft, spec))
        draft.rename(folder)
        with storage_errors(folder.parent):
            sync(folder.parent)
    except OSError as error:
        if not folder.is_dir():  # otherwise another process was quicker: use its folder
            raise StorageError(f"{folder}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def remove_partial(folder: Path) -> None:
    """The leftovers of killed writes."""
    for found in [*folder.rglob(f"{PARTIAL}*")]:
        if found.is_dir() and not found.is_symlink():
            shutil.rmtree(found, ignore_errors=True)  # a dying worker may still be in it
        else:
            with suppress(OSError):
                found.unlink(missing_ok=True)


def _remove_stale(out: Path) -> None:
    for found in out.glob(f"{PARTIAL}*"):
        with suppress(OSError):
            if time.time() - found.stat().st_mtime > STALE_SECONDS:
                shutil.rmtree(found)


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Own the run, or RunInUseError naming who does."""
    lock = FileLock(folder / LOCK)
    with storage_errors(folder / LOCK):
        try:
            lock.acquire(timeout=WAIT_SECONDS, poll_interval=0.05)
        except Timeout:
            raise RunInUseError(f"run {folder.name} is in use by {_owner(folder)}") from None
    try:
        started = datetime.now(UTC).isoformat(timespec="seconds")
        this = {"pid": os.getpid(), "host": platform.node(), "started": started}
        write_json(folder / OWNER, this)
        yield
    finally:
        with suppress(OSError):
            (folder / OWNER).unlink(missing_ok=True)
        lock.release()


def _owner(folder: Path) -> str:
    for _ in range(10):  # the owner writes its name right after it takes the lock
        try:
            owner = json.loads((folder / OWNER).read_bytes())
            return f"process {owner['pid']} on {owner['host']} since {owner['started']}"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            time.sleep(0.1)
    return "another process"
