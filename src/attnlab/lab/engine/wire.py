"""What driver and worker share: their frames (JSON and raw bytes, no pickle), peak memory, logs.

4 bytes length of the JSON | 8 bytes length of the bytes after it | JSON | bytes (safetensors)
"""

import json
import re
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

HEADER = struct.Struct(">IQ")
LINES = 30  # of a log or a traceback
NOISE = "Extension modules:"  # the list faulthandler ends with is longer than all before it
FOLDERS = re.compile(r'File "[^"\n]*?((?:[^/"\n]+/)?[^/"\n]+)"')


def pack(message: dict[str, Any], blob: bytes = b"") -> bytes:
    """One frame."""
    text = json.dumps(message).encode()
    return HEADER.pack(len(text), len(blob)) + text + blob


class Unpacker:
    """Bytes in, in pieces of any size; whole frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], bytes]]:
        """The frames that became whole with this piece."""
        self._buffer += data
        frames: list[tuple[dict[str, Any], bytes]] = []
        while len(self._buffer) >= HEADER.size:
            text, blob = HEADER.unpack_from(self._buffer)
            start, end = HEADER.size + text, HEADER.size + text + blob
            if len(self._buffer) < end:
                break
            message = json.loads(self._buffer[HEADER.size : start])
            frames.append((message, bytes(self._buffer[start:end])))
            del self._buffer[:end]
        return frames


def peak_bytes(process: int | str = "self") -> int:
    """The most memory that a process has held so far, where the system (Linux) tells it; else 0."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{process}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    return 0


def tail(text: str) -> str:
    """The last lines of a log or a traceback, each file named by its last two parts only."""
    said = [line for line in text.strip().splitlines() if not line.startswith(NOISE)]
    return FOLDERS.sub(r'File "\1"', "\n".join(said[-LINES:]))
