"""Forty files that run code when they are unpickled: ten calls in containers that people load.

Written opcode by opcode, so that nothing here pickles either. Each leaves the file CANARY, or a
folder of that name, if anyone opens it the unsafe way.
"""

import bz2
import gzip
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

CANARY = "canary"


def calls(canary: Path) -> list[tuple[str, str, str]]:
    """module, function, argument: each leaves the canary."""
    touch, opened = f"touch {canary}", f"open({str(canary)!r}, 'w')"
    quoted = opened.replace("'", '"')
    return [
        ("os", "system", touch),
        ("posix", "system", touch),
        ("os", "mkdir", str(canary)),
        ("subprocess", "getoutput", touch),
        ("builtins", "exec", quoted),
        ("builtins", "eval", quoted),
        ("os", "popen", touch),
        ("timeit", "timeit", quoted),
        ("cProfile", "run", quoted),
        ("os", "mkfifo", str(canary)),
    ]


def pickled(call: tuple[str, str, str], protocol: int = 0) -> bytes:
    """GLOBAL module name, MARK, STRING argument, TUPLE, REDUCE, STOP."""
    module, name, argument = call
    head = b"" if protocol < 2 else bytes([0x80, protocol])
    return head + f"c{module}\n{name}\n(S{argument!r}\ntR.".encode()


def _zip(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/"), data)
    return packed.getvalue()


def _torch(data: bytes) -> bytes:
    return _zip(archive__data=b"", **{"archive__data.pkl": data, "archive__version": b"3\n"})


def _npy(data: bytes) -> bytes:
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def _hidden(data: bytes) -> bytes:
    """A safetensors header that promises nothing, with the pickle behind it."""
    return struct.pack("<Q", 2) + b"{}" + data


CONTAINERS: dict[str, Callable[[bytes], bytes]] = {
    "pkl": lambda d: d,
    "pt": _torch,
    "pth, legacy": lambda d: b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + d,
    "npy": _npy,
    "npz": lambda d: _zip(**{"arr_0.npy": _npy(d)}),
    "joblib, zlib": zlib.compress,
    "joblib, gzip": lambda d: gzip.compress(d, mtime=0),
    "joblib, bz2": bz2.compress,
    "joblib, xz": lzma.compress,
    "safetensors with a tail": _hidden,
}


def hostile(canary: Path) -> dict[str, bytes]:
    """Four calls in each of the ten containers, protocols 0, 2, 4 and 5."""
    chosen = calls(canary)
    return {
        f"{name}: {chosen[(4 * i + j) % 10][0]}.{chosen[(4 * i + j) % 10][1]}": pack(
            pickled(chosen[(4 * i + j) % 10], (0, 2, 4, 5)[j])
        )
        for i, (name, pack) in enumerate(CONTAINERS.items())
        for j in range(4)
    }
