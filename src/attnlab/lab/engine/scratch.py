"""A temporary folder that is a process's as long as it lives, however it dies."""

import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"
YOUNG_SECONDS = 60.0  # a folder may be without its lock for a moment
_locks: list[FileLock] = []  # held until this process ends


def own_folder(prefix: str) -> str:
    """A new folder under the system's temporary one; those of processes now dead are removed."""
    for found in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError, Timeout):
            if time.time() - found.stat().st_mtime > YOUNG_SECONDS:
                with FileLock(found / LOCK, timeout=0):
                    shutil.rmtree(found, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=prefix)
    _locks.append(FileLock(Path(folder, LOCK)))
    _locks[-1].acquire()
    return folder
