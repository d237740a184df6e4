"""One process owns a run while it writes; the operating system frees the lock when it dies."""

import json
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from attnlab.core.errors import RunInUseError, StorageError
from attnlab.core.files import write_json
from attnlab.lab.manifest import LOCK, OWNER

WAIT_SECONDS = 0.5  # long enough for a process that is just leaving


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Own the run, or RunInUseError naming who does."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=WAIT_SECONDS, poll_interval=0.05)
    except Timeout:
        raise RunInUseError(f"run {folder.name} is in use by {_owner(folder)}") from None
    except OSError as error:
        raise StorageError(f"{folder / LOCK}: {error.strerror or error}") from None
    try:
        write_json(folder / OWNER, _this_process())
        yield
    finally:
        with suppress(OSError):
            (folder / OWNER).unlink(missing_ok=True)
        lock.release()


def _this_process() -> dict[str, str | int]:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": platform.node(), "started": started}


def _owner(folder: Path) -> str:
    for _ in range(10):  # the owner writes its name right after it takes the lock
        try:
            owner = json.loads((folder / OWNER).read_bytes())
            return f"process {owner['pid']} on {owner['host']} since {owner['started']}"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            time.sleep(0.1)
    return "another process"
