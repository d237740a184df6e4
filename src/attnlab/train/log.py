"""The metric log: one JSON line a step. It is part of the state, so resuming never doubles a line.

The whole log is in every checkpoint; `log.jsonl` beside them is a copy to look at while the
training goes on, put right again when it is resumed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.core.errors import IntegrityError, StorageError
from attnlab.core.files import write_bytes


class MetricLog:
    """Lines so far, in memory and, when there is a path, in a file that grows with them."""

    def __init__(self, path: Path | None = None, data: bytes = b"") -> None:
        self._data = bytearray(data)
        self._path = path
        if path is not None:
            write_bytes(path, data)  # what a killed process wrote after its checkpoint goes

    @property
    def data(self) -> bytes:
        """The log as bytes."""
        return bytes(self._data)

    def add(self, line: Mapping[str, float | int | None]) -> None:
        """One more line."""
        encoded = (json.dumps(line, allow_nan=False) + "\n").encode()
        self._data += encoded
        if self._path is None:
            return
        try:
            with self._path.open("ab", buffering=0) as file:
                written = file.write(encoded)
        except OSError as error:
            raise StorageError(f"{self._path}: {error.strerror or error}") from None
        if written != len(encoded):
            raise StorageError(f"{self._path}: only part of a line could be written")


def parse_log(data: bytes) -> tuple[dict[str, Any], ...]:
    """The lines of a log; anything but steps 1, 2, 3 … raises IntegrityError."""
    try:
        lines = tuple(json.loads(line) for line in data.splitlines())
        steps = [line["step"] for line in lines]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(f"log: not what was written: {error}") from None
    if steps != list(range(1, len(lines) + 1)):
        raise IntegrityError("log: a step is missing or doubled")
    return lines
