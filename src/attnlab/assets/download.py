"""Bytes over a bad line: what has arrived is kept, the rest is asked for, three tries a stretch.

A file is done when its size and SHA-256 are the catalogue's, whatever the server says about them.
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
from attnlab.assets.stream import CHUNK, Progress, on_disk
from attnlab.core.errors import IntegrityError

TRIES = 3
WAIT, LONGEST_WAIT = 0.5, 5.0  # seconds between tries
STRETCH = 10  # three more tries for every tenth of the file that arrived
BITE = 1 << 16
_LATER = (408, 425, 429, 500, 502, 503, 504)
_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")

logging.getLogger("stamina").addHandler(logging.NullHandler())  # a retry is not worth a log line


class TransferError(Exception):
    """The line or the server failed; the text says how."""

    def __init__(self, text: str, *, again: bool = True) -> None:
        super().__init__(text)
        self.again = again


class Partial:
    """The bytes of a file that have arrived, with their running SHA-256."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with on_disk(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("a+b")
        self._digest, self.size = hashlib.sha256(), 0
        with on_disk(path):
            self._file.seek(0)
            while chunk := self._file.read(CHUNK):
                self._digest.update(chunk)
                self.size += len(chunk)
        self.joined = self.size > 0  # from the answers to several requests

    def __enter__(self) -> "Partial":
        return self

    def __exit__(self, *_: object) -> None:
        with on_disk(self.path), self._file:
            self._file.flush()
            os.fsync(self._file.fileno())

    def add(self, chunk: bytes) -> None:
        """Append what arrived."""
        with on_disk(self.path):
            self._file.write(chunk)
        self._digest.update(chunk)
        self.size += len(chunk)

    def restart(self) -> None:
        """Forget everything."""
        with on_disk(self.path):
            self._file.truncate(0)
            self._file.seek(0)
        self._digest, self.size, self.joined = hashlib.sha256(), 0, False

    def is_whole(self, package: Package) -> bool:
        """Size and SHA-256 are the catalogue's."""
        return self.size == package.size and self._digest.hexdigest() == package.sha256


def download(
    session: requests.Session, url: str, package: Package, partial: Partial, progress: Progress
) -> None:
    """Fill `partial` from `url`: TransferError if the line fails, IntegrityError on other bytes."""
    if partial.size >= package.size:
        partial.restart()
    afresh = False
    while not partial.is_whole(package):
        if partial.size == package.size:
            if afresh or not partial.joined:
                partial.restart()
                raise IntegrityError(f"{package.name}: SHA-256 is not the catalogue's")
            partial.restart()
            afresh = True  # the parts do not belong together: once more, from the start
        _stretch(session, url, package, partial, progress)


def _stretch(
    session: requests.Session, url: str, package: Package, partial: Partial, progress: Progress
) -> None:
    """Try a few times; raise only if all tries together brought little."""
    before = partial.size
    try:
        for attempt in retrying():
            with attempt:
                _receive(session, url, package, partial, progress)
    except TransferError as error:
        if not error.again or partial.size - before < package.size / STRETCH:
            raise
    finally:
        progress.stop()


def retrying() -> Iterable[stamina.Attempt]:
    """Three tries with growing pauses, for failures that may pass."""
    return stamina.retry_context(
        on=lambda error: isinstance(error, TransferError) and error.again,
        attempts=TRIES,
        timeout=None,
        wait_initial=WAIT,
        wait_max=LONGEST_WAIT,
        wait_jitter=WAIT,
    )


def _receive(
    session: requests.Session, url: str, package: Package, partial: Partial, progress: Progress
) -> None:
    # the bytes as they are stored: an archive must not be unpacked on the way
    headers = {"Accept-Encoding": "identity"}
    if partial.size:
        headers["Range"] = f"bytes={partial.size}-"
    try:
        with session.get(url, headers=headers, stream=True) as answer:
            _fit(answer, partial)
            progress.start(package.name, package.size, partial.size)
            while chunk := _bite(answer, package.size - partial.size):
                partial.add(chunk)
                progress.advance(len(chunk))
    except (OSError, urllib3.exceptions.HTTPError) as error:  # what requests raises is an OSError
        raise failure(error) from None
    if partial.size < package.size:
        raise TransferError(f"the connection ended after {partial.size} of {package.size} bytes")


def _bite(answer: requests.Response, left: int) -> bytes:
    """The next bytes, never more than are wanted: what follows the end is not looked at."""
    return answer.raw.read(min(BITE, left), decode_content=False) if left else b""


def _fit(answer: requests.Response, partial: Partial) -> None:
    """Does the answer continue what is here? A server without ranges begins anew, and so do we."""
    if answer.status_code == 416:  # it has fewer bytes than we
        partial.restart()
        raise TransferError("the server has another file now")
    refuse_status(answer)
    if partial.size and _first_byte(answer) != partial.size:
        partial.restart()
        if answer.status_code == 206:
            raise TransferError("the server sent another part than asked for")
    partial.joined = partial.size > 0


def _first_byte(answer: requests.Response) -> int:
    found = _RANGE.match(answer.headers.get("Content-Range", ""))
    return int(found[1]) if answer.status_code == 206 and found else 0


def refuse_status(answer: requests.Response) -> None:
    """A TransferError unless the server gave what was asked for."""
    if not answer.ok:
        raise TransferError(f"HTTP {answer.status_code}", again=answer.status_code in _LATER)


def failure(error: Exception) -> TransferError:
    """What went wrong on the line, in a few words, without addresses or passwords."""
    if isinstance(error, requests.exceptions.SSLError):
        return TransferError("the server's certificate is not accepted", again=False)
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return TransferError("no answer in time")
    if isinstance(
        error,
        requests.exceptions.InvalidURL
        | requests.exceptions.InvalidSchema
        | requests.exceptions.MissingSchema,
    ):
        return TransferError("its address is not one", again=False)
    if isinstance(error, requests.ConnectionError | urllib3.exceptions.HTTPError):
        return TransferError("no connection, or it broke")
    reason = str(error) if not isinstance(error, requests.RequestException) else ""
    return TransferError(reason[:200] or type(error).__name__, again=False)
