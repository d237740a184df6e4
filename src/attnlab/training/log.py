"""The metric log: one JSON line per step.

The log is part of the training state: every checkpoint holds all of it, so that a resumed training
never writes a line twice. `log.jsonl` beside the checkpoints is a copy to read during the training;
resuming rewrites it from the checkpoint.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.core.errors import IntegrityError, StorageError, storage_errors
from attnlab.core.files import write_bytes


class MetricLog:
    """The lines so far, in memory and, if a path is given, in a file that is appended to."""

    def __init__(self, path: Path | None = None, data: bytes = b"") -> None:
        self._data = bytearray(data)
        self._path = path
        if path is not None:
            write_bytes(path, data)  # drops what a killed process wrote after its checkpoint

    @property
    def data(self) -> bytes:
        """All lines as JSON, as they are stored in a checkpoint."""
        return bytes(self._data)

    def add(self, line: Mapping[str, float | int | None]) -> None:
        """Append the metrics of one step; a disk that refuses the write raises StorageError."""
        encoded = (json.dumps(line, allow_nan=False) + "\n").encode()
        self._data += encoded
        if self._path is None:
            return
        with storage_errors(self._path), self._path.open("ab", buffering=0) as file:
            written = file.write(encoded)
        if written != len(encoded):
            raise StorageError(f"{self._path}: only part of a line could be written")


def parse_log(data: bytes) -> tuple[dict[str, Any], ...]:
    """Parse the lines of a log; steps other than 1, 2, 3 … raise IntegrityError."""
    try:
        lines = tuple(json.loads(line) for line in data.splitlines())
        steps = [line["step"] for line in lines]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IntegrityError(f"log: not what was written: {error}") from None
    if steps != list(range(1, len(lines) + 1)):
        raise IntegrityError("log: a step is missing or appears twice")
    return lines
