"""Read matrices and vectors from CSV (one row per line), JSON (a list of rows) or .npy files.

Anything but a rectangle of finite numbers is refused with a one-line error that says where it is
wrong. The file name's suffix decides how it is read: .json, .npy, or text. Nothing is unpickled.
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
from attnlab.core.plural import shorten

LARGEST = 128_000_000  # bytes: 4,000 keys of 4,000 numbers in .npy
REFUSED = {
    ".npz": "an archive",
    ".pkl": "a pickle",
    ".pickle": "a pickle",
    ".pt": "a pickle",
    ".pth": "a pickle",
}
KINDS = {str: "text", list: "a list", dict: "an object", bool: "true or false", type(None): "null"}
SUM = 1e-9  # how far from 1 the sum of a distribution may be
SHOWN = 20  # characters of a cell in an error message
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
# the start of a cell that was meant as a number: a first line without one is a header
_LIKE_NUMBER = re.compile(rf"[\"'(]?[+-]?\.?\d|{_NOT_FINITE.pattern}\Z", re.IGNORECASE)
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_matrix(path: Path | str, what: str) -> NDArray[np.float64]:
    """The rows of a file as float64 (rows, columns); errors call them `what` ("keys")."""
    array = _read(Path(path), what)
    if array.ndim != 2:
        _refuse(path, f"{what} must be rows of numbers, this has {_describe_shape(array)}")
    return array


def read_vector(text: str, what: str) -> NDArray[np.float64]:
    """Numbers given directly, as in `1,0,-.5`, or a file with one row or one column."""
    if inline := numbers(text):
        return np.array(inline)
    if not os.path.exists(text):  # unlike Path.exists, False for a name too long
        _refuse(shorten(text, SHOWN), f"{what} is neither numbers, as in 1,0,-.5, nor a file")
    array = _read(Path(text), what)
    if array.ndim > 2 or (array.ndim == 2 and 1 not in array.shape):
        _refuse(text, f"{what} must be one row of numbers, this has {_describe_shape(array)}")
    return array.reshape(-1)


def read_distribution(text: str, what: str) -> NDArray[np.float64]:
    """A vector without negative entries that sums to 1 within 1e-9; it is not normalised."""
    array = read_vector(text, what)
    if (array < 0).any():
        position = int(np.argmax(array < 0))
        raise UsageError(f"{what}: number {position} (from 0) is negative, {array[position]:g}")
    total = math.fsum(array)
    if abs(total - 1) > SUM:
        raise UsageError(f"{what} must sum to 1: these sum to {total:.12g}")
    return array


def numbers(text: str) -> list[float]:
    """[1.0, 0.0, -0.5] from `1,0,-.5`; an empty list if any part is not a finite number."""
    pieces = [_clean(piece) for piece in text.split(",")]
    if not all(_NUMBER.fullmatch(piece) for piece in pieces):
        return []
    values = [float(piece) for piece in pieces]
    return values if np.isfinite(values).all() else []


def indices(text: str, what: str) -> tuple[int, ...]:
    """(0, 2, 5) from `0,2,5`: indices of keys, from 0; the caller checks that the keys exist."""
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(re.fullmatch(r"-?\d{1,9}", piece, re.ASCII) for piece in pieces):
        raise UsageError(
            f"{what} {shorten(text, SHOWN)!r}: give indices of keys, counted from 0, as in 0,2,5"
        )
    return tuple(int(piece) for piece in pieces)


def vectors_are_columns(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Whether two bases were written with one vector per column.

    The vectors of A and B have equal lengths, which often only rows or only columns have. Where
    both have, a basis has no more vectors than a vector has entries. A square basis is read by
    rows.
    """
    by_rows, by_columns = a.shape[1] == b.shape[1], a.shape[0] == b.shape[0]
    return by_columns and (not by_rows or a.shape[0] > a.shape[1])


def _read(path: Path, what: str) -> NDArray[np.float64]:
    suffix = path.suffix.lower()
    if suffix in REFUSED:
        _refuse(path, f"{REFUSED[suffix]} is not read: give CSV, JSON or .npy")
    data = _read_bytes(path)
    if suffix == ".npy":
        array = _read_npy(path, data)
    elif data.startswith((npy.MAGIC_PREFIX, b"PK\x03\x04")):
        _refuse(path, "holds numpy's binary format: give CSV, JSON or a name ending in .npy")
    else:
        text = _decode(path, data)
        array = _read_json(path, text, what) if suffix == ".json" else _read_text(path, text)
    if array.size == 0:
        _refuse(path, "holds no numbers")
    if not np.isfinite(array).all():
        where = ", ".join(str(i + 1) for i in np.argwhere(~np.isfinite(array))[0])
        _refuse(path, f"entry {where} (from 1) is not a finite number")
    return array


def _read_bytes(path: Path) -> bytes:
    """All bytes of a regular file of reasonable size; devices, pipes and folders are refused."""
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


def _decode(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse(path, "not a UTF-8 text file")


def _read_text(path: Path, text: str) -> NDArray[np.float64]:
    """Cells separated by `;`, else `,`, else spaces; skips blank lines, # comments and a header."""
    numbered = enumerate(text.splitlines(), 1)
    lines = [(i, line) for i, line in numbered if line.strip() and line.strip()[0] != "#"]
    separator = next((mark for mark in ";," if any(mark in line for _, line in lines)), None)
    rows: list[list[float]] = []
    first = 0
    for position, (i, line) in enumerate(lines):
        cells = [_clean(cell) for cell in line.split(separator)]
        if position == 0 and not any(map(_LIKE_NUMBER.match, cells)):
            if not cells[0]:
                why = "the first column has no name: rows must hold numbers only, without an index"
                _refuse(path, why)
            continue
        rows.append([_parse_cell(path, i, j, cell) for j, cell in enumerate(cells, 1)])
        first = first or i
        if len(cells) != len(rows[0]):
            _refuse(path, f"line {i} has {len(cells)} numbers, line {first} has {len(rows[0])}")
    return np.array(rows, dtype=np.float64)


def _clean(cell: str) -> str:
    """The cell without spaces and quotes, and with an ASCII minus sign."""
    bare = cell.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == '"':  # one quote alone: "1,5" was one cell, not two
        bare = bare[1:-1].strip()
    return bare.replace("−", "-")


def _parse_cell(path: Path, line: int, column: int, cell: str) -> float:
    if _NUMBER.fullmatch(cell):
        return float(cell)
    where = f"line {line}, column {column}"
    if not cell:
        _refuse(path, f"{where} is empty")
    if _NOT_FINITE.fullmatch(cell):
        _refuse(path, f"{where} is {cell}, not a finite number")
    hint = " (write decimals with a point)" if _NUMBER.fullmatch(cell.replace(",", ".")) else ""
    _refuse(path, f"{where}: {shorten(cell, SHOWN)!r} is not a number{hint}")


def _read_json(path: Path, text: str, what: str) -> NDArray[np.float64]:
    """A list of numbers or of equally long lists; of an object, the entry named `what`."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"not JSON: {error}")
    if isinstance(document, dict):
        if what not in document:
            _refuse(path, f"an object without {what!r}: give a list of rows")
        document = document[what]
    if not isinstance(document, list):
        _refuse(path, "not a list of numbers or of rows")
    nested = [isinstance(row, list) for row in document]
    rows = document if all(nested) else [document]
    for i, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            _refuse(path, f"row {i} has {len(row)} numbers, row 1 has {len(rows[0])}")
    values = [[_parse_json_number(path, i, each) for each in row] for i, row in enumerate(rows, 1)]
    return np.array(values if all(nested) else values[0], dtype=np.float64)


def _parse_json_number(path: Path, row: int, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(path, f"row {row}: {KINDS[type(value)]} is not a number")
    try:
        return float(value)
    except OverflowError:
        _refuse(path, f"row {row}: {shorten(str(value), SHOWN)} is too large")


def _read_npy(path: Path, data: bytes) -> NDArray[np.float64]:
    """Check shape and dtype in the header before any memory is allocated."""
    file = BytesIO(data)
    try:
        shape, _, dtype = _HEADERS[npy.read_magic(file)](file)
    except Exception:  # numpy evaluates the header as a literal, which can raise anything
        _refuse(path, "not a .npy file (version 1 or 2)")
    if dtype.hasobject or dtype.kind not in "fiu" or dtype.shape:
        kind = "pickled objects" if dtype.hasobject else str(dtype)
        _refuse(path, f"holds {shorten(kind, SHOWN)}, not real numbers")
    size = dtype.itemsize
    for side in shape:
        size *= int(side)
    if size != len(data) - file.tell() or min(shape, default=0) < 0:
        _refuse(path, f"has {len(data) - file.tell()} bytes of numbers, but its header says {size}")
    file.seek(0)
    with np.errstate(over="ignore"):  # numbers beyond float64 become inf and are refused
        return npy.read_array(file, allow_pickle=False).astype(np.float64)


def _describe_shape(array: NDArray[np.float64]) -> str:
    if array.ndim == 2:
        return f"{array.shape[0]} rows of {array.shape[1]}"
    return "no rows" if array.ndim < 2 else f"{array.ndim} dimensions"


def _refuse(path: Path | str, why: str) -> NoReturn:
    raise UsageError(f"{path}: {why}")
