"""Copy bytes to a file while checking their number and SHA-256; report progress."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import IO, Protocol

from attnlab.assets.catalogue import File
from attnlab.core.errors import IntegrityError, storage_errors

CHUNK = 1 << 20


class Progress(Protocol):
    """Receives the progress of a download."""

    def start(self, what: str, total: int, done: int) -> None:
        """`done` of `total` bytes of `what` are here."""

    def advance(self, count: int) -> None:
        """`count` more bytes arrived."""

    def stop(self) -> None:
        """No more bytes will come."""

    def note(self, text: str) -> None:
        """A remark in one line."""


class NoProgress(Progress):
    """Ignores all progress."""


def copy_verified(source: IO[bytes], target: Path, file: File) -> None:
    """Write `source` to the new file `target`: exactly the bytes of `file`, or IntegrityError."""
    digest, count = hashlib.sha256(), 0
    with storage_errors(target):
        sink = target.open("xb")
    try:
        # one byte past the end is enough to see that there is more
        while chunk := source.read(min(CHUNK, file.size + 1 - count)):
            count += len(chunk)
            digest.update(chunk)
            if count > file.size:
                raise IntegrityError(f"{file.name}: more than the {file.size} bytes expected")
            with storage_errors(target):
                sink.write(chunk)
        if count < file.size:
            raise IntegrityError(f"{file.name}: {count} bytes, {file.size} expected")
        if digest.hexdigest() != file.sha256:
            raise IntegrityError(f"{file.name}: SHA-256 is not the catalogue's")
        with storage_errors(target):
            sink.flush()
            os.fsync(sink.fileno())
    finally:
        with suppress(OSError):  # already complete, or already failed: report the first error
            sink.close()
