"""Download a file over an unreliable connection: resume where it broke off, retry three times.

A file is complete when its size and SHA-256 are the catalogue's, whatever the server reports.
"""

import hashlib
import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import requests
import stamina
import urllib3

from attnlab.assets.catalogue import Package
from attnlab.assets.stream import CHUNK, Progress
from attnlab.core.errors import IntegrityError, storage_errors

TRIES = 3
WAIT, LONGEST_WAIT = 0.5, 5.0  # seconds between tries
PROGRESS_PARTS = 10  # whenever a tenth of the file has arrived, the retries start again
READ_BYTES = 1 << 16
_RETRY_STATUSES = (408, 425, 429, 500, 502, 503, 504)
_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")

logging.getLogger("stamina").addHandler(logging.NullHandler())  # do not log retries


class TransferError(Exception):
    """The connection or the server failed; `again`: a retry may help."""

    def __init__(self, text: str, *, again: bool = True) -> None:
        super().__init__(text)
        self.again = again


class PartialFile:
    """A partly downloaded file and the SHA-256 of its bytes so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("a+b")
        self._digest, self.size = hashlib.sha256(), 0
        with storage_errors(path):
            self._file.seek(0)
            while chunk := self._file.read(CHUNK):
                self._digest.update(chunk)
                self.size += len(chunk)
        self.joined = self.size > 0  # put together from several requests

    def __enter__(self) -> "PartialFile":
        return self

    def __exit__(self, *_: object) -> None:
        with storage_errors(self.path), self._file:
            self._file.flush()
            os.fsync(self._file.fileno())

    def add(self, chunk: bytes) -> None:
        """Append the bytes."""
        with storage_errors(self.path):
            self._file.write(chunk)
        self._digest.update(chunk)
        self.size += len(chunk)

    def restart(self) -> None:
        """Discard all bytes."""
        with storage_errors(self.path):
            self._file.truncate(0)
            self._file.seek(0)
        self._digest, self.size, self.joined = hashlib.sha256(), 0, False

    def is_whole(self, package: Package) -> bool:
        """Whether size and SHA-256 are those of the catalogue."""
        return self.size == package.size and self._digest.hexdigest() == package.sha256


def download(
    session: requests.Session, url: str, package: Package, partial: PartialFile, progress: Progress
) -> None:
    """Complete `partial` from `url`; TransferError if that fails, IntegrityError on other bytes."""
    if partial.size >= package.size:
        partial.restart()
    afresh = False
    while not partial.is_whole(package):
        if partial.size == package.size:
            if afresh or not partial.joined:
                partial.restart()
                raise IntegrityError(f"{package.name}: SHA-256 is not the catalogue's")
            partial.restart()
            afresh = True  # the parts do not fit together: download it once more from the start
        before = partial.size
        try:
            for attempt in retry_attempts():
                with attempt:
                    _receive(session, url, package, partial, progress)
        except TransferError as error:  # raised only if little arrived in all attempts together
            if not error.again or partial.size - before < package.size / PROGRESS_PARTS:
                raise
        finally:
            progress.stop()


def retry_attempts() -> Iterable[stamina.Attempt]:
    """Three attempts with growing pauses, for errors that may be temporary."""
    return stamina.retry_context(
        on=lambda error: isinstance(error, TransferError) and error.again,
        attempts=TRIES,
        timeout=None,
        wait_initial=WAIT,
        wait_max=LONGEST_WAIT,
        wait_jitter=WAIT,
    )


def _receive(
    session: requests.Session, url: str, package: Package, partial: PartialFile, progress: Progress
) -> None:
    # no compression by the server: we want the bytes of the archive itself
    headers = {"Accept-Encoding": "identity"}
    if partial.size:
        headers["Range"] = f"bytes={partial.size}-"
    try:
        with session.get(url, headers=headers, stream=True) as answer:
            _check_continuation(answer, partial)
            progress.start(package.name, package.size, partial.size)
            while chunk := _read_chunk(answer, package.size - partial.size):
                partial.add(chunk)
                progress.advance(len(chunk))
    except (OSError, urllib3.exceptions.HTTPError) as error:  # what requests raises is an OSError
        raise transfer_error(error) from None
    if partial.size < package.size:
        raise TransferError(f"the connection ended after {partial.size} of {package.size} bytes")


def _read_chunk(answer: requests.Response, left: int) -> bytes:
    """The next bytes, never more than the file still needs."""
    return answer.raw.read(min(READ_BYTES, left), decode_content=False) if left else b""


def _check_continuation(answer: requests.Response, partial: PartialFile) -> None:
    """Start over if the response does not continue our bytes, as from a server without ranges."""
    if answer.status_code == 416:  # the server's file is shorter than our part
        partial.restart()
        raise TransferError("the file on the server has changed")
    check_status(answer)
    if partial.size and _range_start(answer) != partial.size:
        partial.restart()
        if answer.status_code == 206:
            raise TransferError("the server sent another part of the file than requested")
    partial.joined = partial.size > 0


def _range_start(answer: requests.Response) -> int:
    found = _RANGE.match(answer.headers.get("Content-Range", ""))
    return int(found[1]) if answer.status_code == 206 and found else 0


def check_status(answer: requests.Response) -> None:
    """Raise a TransferError for an HTTP error status."""
    if not answer.ok:
        raise TransferError(
            f"HTTP {answer.status_code}", again=answer.status_code in _RETRY_STATUSES
        )


def transfer_error(error: Exception) -> TransferError:
    """The error in a few words, without URLs, which may hold passwords."""
    if isinstance(error, requests.exceptions.SSLError):
        return TransferError("the server's certificate is not trusted", again=False)
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return TransferError("the server did not answer in time")
    if isinstance(
        error,
        requests.exceptions.InvalidURL
        | requests.exceptions.InvalidSchema
        | requests.exceptions.MissingSchema,
    ):
        return TransferError("invalid URL", again=False)
    if isinstance(error, requests.ConnectionError | urllib3.exceptions.HTTPError):
        return TransferError("the connection failed")
    reason = str(error) if not isinstance(error, requests.RequestException) else ""
    return TransferError(reason[:200] or type(error).__name__, again=False)
