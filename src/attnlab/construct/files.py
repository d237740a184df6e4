"""Matrices and vectors from files: one row a line (CSV), a list of rows (JSON), or .npy.

What is not a rectangle of finite numbers is refused in one line that says where. The name's
ending decides how a file is read: .json, .npy, anything else is text. Nothing is unpickled.
"""

import json
import math
import os
import re
from io import BytesIO
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from attnlab.core.errors import UsageError

LARGEST = 128_000_000  # bytes: 4,000 keys of 4,000 numbers in .npy
REFUSED = {
    ".npz": "an archive",
    ".pkl": "a pickle",
    ".pickle": "a pickle",
    ".pt": "a pickle",
    ".pth": "a pickle",
}
KINDS = {str: "text", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
SUM = 1e-9  # how far from 1 a distribution may sum
SHOWN = 20  # characters of a cell in a message
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
# where a number was meant, well written or not: a line with none of these is a line of names
_BEGINS = re.compile(rf"[\"'(]?[+-]?\.?\d|{_NOT_FINITE.pattern}\Z", re.IGNORECASE)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_matrix(path: Path | str, what: str) -> NDArray[np.float64]:
    """The rows of a file as float64 (rows, columns); `what` names them in messages ("keys")."""
    found = _read(Path(path), what)
    if found.ndim != 2:
        _refuse(path, f"{what} are rows of numbers, this has {_dimensions(found)}")
    return found


def read_vector(text: str, what: str) -> NDArray[np.float64]:
    """`1,0,-.5` typed in place, or the one row or one column of a file."""
    if inline := numbers(text):
        return np.array(inline)
    if not os.path.exists(text):  # unlike Path.exists, False for a name too long
        _refuse(_cut(text), f"{what} is neither numbers, as in 1,0,-.5, nor a file")
    found = _read(Path(text), what)
    if found.ndim > 2 or (found.ndim == 2 and 1 not in found.shape):
        _refuse(text, f"{what} is one row of numbers, this has {_dimensions(found)}")
    return found.reshape(-1)


def read_distribution(text: str, what: str) -> NDArray[np.float64]:
    """A vector that is not negative and sums to 1 within 1e-9; it is not made to."""
    found = read_vector(text, what)
    if (found < 0).any():
        place = int(np.argmax(found < 0))
        raise UsageError(f"{what}: number {place} (from 0) is negative, {found[place]:g}")
    total = math.fsum(found)
    if abs(total - 1) > SUM:
        raise UsageError(f"{what} must sum to 1: these sum to {total:.12g}")
    return found


def numbers(text: str) -> list[float]:
    """[1.0, 0.0, -0.5] of `1,0,-.5`; nothing if any piece is not a finite number."""
    pieces = [_plain(piece) for piece in text.split(",")]
    if not all(_NUMBER.fullmatch(piece) for piece in pieces):
        return []
    found = [float(piece) for piece in pieces]
    return found if np.isfinite(found).all() else []


def indices(text: str, what: str) -> tuple[int, ...]:
    """(0, 2, 5) of `0,2,5`: which keys, counted from 0; whether they exist is not asked here."""
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(re.fullmatch(r"-?\d{1,9}", piece, re.ASCII) for piece in pieces):
        raise UsageError(f"{what} {_cut(text)!r}: numbers of keys, counted from 0, as in 0,2,5")
    return tuple(int(piece) for piece in pieces)


def vectors_are_columns(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether two bases were written one vector a column.

    Vectors of A and B are equally long: where only rows or only columns are, it is they. Where
    both are, no basis has more vectors than a vector has entries. A square one is read by rows.
    """
    by_rows, by_columns = a.shape[1] == b.shape[1], a.shape[0] == b.shape[0]
    return by_columns and (not by_rows or a.shape[0] > a.shape[1])


def _read(path: Path, what: str) -> NDArray[np.float64]:
    ending = path.suffix.lower()
    if ending in REFUSED:
        _refuse(path, f"{REFUSED[ending]} is not opened: give CSV, JSON or .npy")
    data = _bytes(path)
    if ending == ".npy":
        found = _array(path, data)
    elif data.startswith((npy.MAGIC_PREFIX, b"PK\x03\x04")):
        _refuse(path, "holds numpy's binary format: CSV, JSON or a name ending in .npy")
    else:
        text = _text(path, data)
        found = _listed(path, text, what) if ending == ".json" else _table(path, text)
    if found.size == 0:
        _refuse(path, "holds no numbers")
    if not np.isfinite(found).all():
        where = ", ".join(str(i + 1) for i in np.argwhere(~np.isfinite(found))[0])
        _refuse(path, f"entry {where} (from 1) is not a finite number")
    return found


def _bytes(path: Path) -> bytes:
    """All bytes of a file of reasonable size; devices, pipes and folders are none."""
    try:
        if path.exists() and not path.is_file():
            _refuse(path, "not a file")
        if path.stat().st_size > LARGEST:
            _refuse(path, f"larger than {LARGEST // 1_000_000} MB")
        return path.read_bytes()
    except OSError as error:
        _refuse(path, error.strerror or str(error))
    except ValueError as error:  # a NUL in the name
        _refuse(path, str(error))


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse(path, "not a text of numbers (UTF-8)")


def _table(path: Path, text: str) -> NDArray[np.float64]:
    """Cells between `;`, else `,`, else spaces; blank lines, #-lines and one line of names skip."""
    lines = [(i, line) for i, line in enumerate(text.splitlines(), 1) if not _skipped(line)]
    between = next((mark for mark in ";," if any(mark in line for _, line in lines)), None)
    rows: list[list[float]] = []
    first = 0
    for position, (i, line) in enumerate(lines):
        cells = [_plain(cell) for cell in line.split(between)]
        if position == 0 and not any(map(_BEGINS.match, cells)):
            if not cells[0]:
                _refuse(path, "the first column has no name: rows are numbers only, no index")
            continue
        rows.append([_cell(path, i, j, cell) for j, cell in enumerate(cells, 1)])
        first = first or i
        if len(cells) != len(rows[0]):
            _refuse(path, f"line {i} has {len(cells)} numbers, line {first} has {len(rows[0])}")
    return np.array(rows, dtype=np.float64)


def _skipped(line: str) -> bool:
    bare = line.strip()
    return not bare or bare.startswith("#")


def _plain(cell: str) -> str:
    """Without spaces and quotes, with a minus that Python reads too."""
    bare = cell.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == '"':  # half a pair: "1,5" was one cell, not two
        bare = bare[1:-1].strip()
    return bare.replace("−", "-")


def _cell(path: Path, line: int, column: int, cell: str) -> float:
    if _NUMBER.fullmatch(cell):
        return float(cell)
    where = f"line {line}, column {column}"
    if not cell:
        _refuse(path, f"{where} is empty")
    if _NOT_FINITE.fullmatch(cell):
        _refuse(path, f"{where} is {cell}, not a finite number")
    hint = (
        " (decimals are written with a point)" if _NUMBER.fullmatch(cell.replace(",", ".")) else ""
    )
    _refuse(path, f"{where}: {_cut(cell)!r} is not a number{hint}")


def _listed(path: Path, text: str, what: str) -> NDArray[np.float64]:
    """A list of numbers or of equally long lists; in an object, the one under `what`."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"not JSON: {error}")
    if isinstance(found, dict):
        if what not in found:
            _refuse(path, f"an object without {what!r}: a list of rows is wanted")
        found = found[what]
    if not isinstance(found, list):
        _refuse(path, "not a list of numbers or of rows")
    nested = [isinstance(row, list) for row in found]
    rows = found if all(nested) else [found]
    for i, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            _refuse(path, f"row {i} has {len(row)} numbers, row 1 has {len(rows[0])}")
    values = [[_json_number(path, i, each) for each in row] for i, row in enumerate(rows, 1)]
    return np.array(values if all(nested) else values[0], dtype=np.float64)


def _json_number(path: Path, row: int, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, f"row {row}: {KINDS[type(value)]} is not a number")
    try:
        return float(value)
    except OverflowError:
        _refuse(path, f"row {row}: {_cut(str(value))} is too large")


def _array(path: Path, data: bytes) -> NDArray[np.float64]:
    """Shape and dtype are judged from the header alone, before memory is taken or bytes read."""
    file = BytesIO(data)
    try:
        shape, _, dtype = _HEADERS[npy.read_magic(file)](file)
    except Exception:  # numpy evaluates the header as a literal: anything can come of junk
        _refuse(path, "not a .npy file (version 1 or 2)")
    if dtype.hasobject or dtype.kind not in "fiu" or dtype.shape:
        kind = "pickled objects" if dtype.hasobject else str(dtype)
        _refuse(path, f"holds {_cut(kind)}, not real numbers")
    size = dtype.itemsize
    for side in shape:
        size *= int(side)
    if size != len(data) - file.tell() or min(shape, default=0) < 0:
        _refuse(path, f"{len(data) - file.tell()} bytes of numbers where its header says {size}")
    file.seek(0)
    with np.errstate(over="ignore"):  # what float64 cannot hold becomes inf and is refused
        return npy.read_array(file, allow_pickle=False).astype(np.float64)


def _dimensions(found: NDArray[np.float64]) -> str:
    if found.ndim == 2:
        return f"{found.shape[0]} rows of {found.shape[1]}"
    return "no rows" if found.ndim < 2 else f"{found.ndim} dimensions"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _refuse(path: Path | str, why: str) -> NoReturn:
    raise UsageError(f"{path}: {why}")
