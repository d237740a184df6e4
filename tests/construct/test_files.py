"""Matrices from CSV, JSON and .npy: what is written is read, what is none is one line."""

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnlab.construct import files
from attnlab.construct.files import indices, numbers, read_distribution, read_matrix, read_vector
from attnlab.core.errors import UsageError

FINITE = st.floats(allow_nan=False, allow_infinity=False)
MATRICES = arrays(np.float64, st.tuples(st.integers(1, 7), st.integers(1, 5)), elements=FINITE)
HYPOTHESIS = settings(
    derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def spelled(matrix: np.ndarray, between: str) -> str:
    """repr of a float is the shortest text that reads back as the same float."""
    return "".join(between.join(repr(float(x)) for x in row) + "\n" for row in matrix)


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


WRITERS: dict[str, Callable[[np.ndarray], bytes]] = {
    "comma.csv": lambda m: spelled(m, ",").encode(),
    "comma-space.csv": lambda m: spelled(m, ", ").encode(),
    "semicolon.csv": lambda m: spelled(m, ";").encode(),
    "tab.tsv": lambda m: spelled(m, "\t").encode(),
    "space.txt": lambda m: spelled(m, "  ").encode(),
    "windows.csv": lambda m: b"\xef\xbb\xbf" + spelled(m, ",").replace("\n", "\r\n").encode(),
    "names.csv": lambda m: ('a,"b, c",μ_1\n# 7\n\n' + spelled(m, ",")).encode(),
    "quoted.csv": lambda m: (
        '"' + '"\n"'.join('","'.join(repr(float(x)) for x in row) for row in m) + '"'
    ).encode(),
    "rows.json": lambda m: json.dumps(m.tolist()).encode(),
    "object.json": lambda m: json.dumps({"other": 1, "keys": m.tolist()}).encode(),
    "array.npy": npy,
    "fortran.npy": lambda m: npy(np.asfortranarray(m)),
    "swapped.npy": lambda m: npy(m.astype(">f8")),
}


@pytest.mark.parametrize("name", WRITERS)
@HYPOTHESIS
@given(matrix=MATRICES)
def test_what_is_written_is_read_bit_for_bit(tmp_path: Path, name: str, matrix: Any) -> None:
    (tmp_path / name).write_bytes(WRITERS[name](matrix))
    found = read_matrix(tmp_path / name, "keys")
    assert found.dtype == np.float64 and found.shape == matrix.shape
    assert found.tobytes() == matrix.tobytes()  # also the sign of a zero


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "uint16", "int64", "longdouble"])
def test_every_real_dtype_of_numpy(tmp_path: Path, dtype: str) -> None:
    matrix = np.arange(6).reshape(2, 3).astype(dtype)
    np.save(tmp_path / "K.npy", matrix)
    assert read_matrix(tmp_path / "K.npy", "keys").tolist() == [[0, 1, 2], [3, 4, 5]]


def test_what_numpy_writes_as_text(tmp_path: Path) -> None:
    matrix = np.array([[1.5, -2.25, 3.0], [0.0, 1e-8, 1e8]])
    np.savetxt(tmp_path / "a.txt", matrix, header="x y z")
    np.savetxt(tmp_path / "b.csv", matrix, delimiter=",", header="x,y,z", comments="")
    for name in ("a.txt", "b.csv"):
        assert np.array_equal(read_matrix(tmp_path / name, "keys"), matrix)


def test_numbers_as_people_write_them(tmp_path: Path) -> None:
    (tmp_path / "K.csv").write_text("1, .5 ,−2\n+3.,1E2,-0\n", encoding="utf-8")
    assert read_matrix(tmp_path / "K.csv", "keys").tolist() == [[1, 0.5, -2], [3, 100, 0]]


BAD: dict[str, tuple[bytes | None, str]] = {
    "none.csv": (None, "No such file"),
    "empty.csv": (b"", "holds no numbers"),
    "blank.csv": (b"\n \n# nothing\n", "holds no numbers"),
    "names only.csv": (b"x,y,z\n", "holds no numbers"),
    "ragged.csv": (b"x,y\n1,2\n3\n", "line 3 has 1 numbers, line 2 has 2"),
    "ragged late.csv": (b"1,2\n\n3,4,5\n", "line 3 has 3 numbers, line 1 has 2"),
    "hole.csv": (b"1,2\n3,\n", "line 2, column 2 is empty"),
    "trailing.csv": (b"1,2,\n", "line 1, column 3 is empty"),
    "nan.csv": (b"1,2\nnan,4\n", "line 2, column 1 is nan"),
    "first nan.csv": (b"nan,NaN\n1,2\n", "line 1, column 1 is nan"),
    "inf.csv": (b"1,-Infinity\n", "line 1, column 2 is -Infinity"),
    "huge number.csv": (b"1,2\n3,1e999\n", "entry 2, 2 (from 1) is not a finite number"),
    "word.csv": (b"1,2\n3,four\n", "line 2, column 2: 'four' is not a number"),
    "label.csv": (b"cat,1,2\n", "line 1, column 1: 'cat' is not a number"),
    "index.csv": (b",x,y\n0,1,2\n", "the first column has no name"),
    "decimal comma.csv": (b"1,5;2\n", "write decimals with a point"),
    "quoted comma.csv": (b'"1,5","2,5"\n3,4\n', "is not a number"),
    "python.csv": (b"1_0,2\n", "'1_0' is not a number"),
    "arabic.csv": ("١,٢\n1,2\n".encode(), "line 1, column 1"),
    "complex.csv": (b"1,2\n1+2j,3\n", "'1+2j' is not a number"),
    "binary.csv": (bytes(range(256)), "not a UTF-8 text file"),
    "array.csv": (npy(np.eye(3)), "a name ending in .npy"),
    "archive.csv": (b"PK\x03\x04" + bytes(31), "a name ending in .npy"),
    "archive.npz": (b"PK\x03\x04" + bytes(31), "an archive is not read"),
    "bad.PKL": (b"cos\nsystem\n", "a pickle is not read"),
    "empty.json": (b"", "not JSON"),
    "no rows.json": (b"[]", "holds no numbers"),
    "empty rows.json": (b"[[],[]]", "holds no numbers"),
    "ragged.json": (b"[[1,2],[3]]", "row 2 has 1 numbers, row 1 has 2"),
    "flat.json": (b"[1,2,3]", "keys must be rows of numbers, this has no rows"),
    "mixed.json": (b"[1,[2]]", "a list is not a number"),
    "deep.json": (b"[[[1]]]", "a list is not a number"),
    "bottomless.json": (b"[" * 100_003, "not JSON"),
    "text.json": (b'[["1",2]]', "text is not a number"),
    "true.json": (b"[[1,true]]", "true or false is not a number"),
    "null.json": (b"[[null]]", "null is not a number"),
    "nan.json": (b"[[1,2],[NaN,4]]", "entry 2, 1 (from 1) is not a finite number"),
    "inf.json": (b"[[1e999]]", "entry 1, 1"),
    "large.json": (b"[[1" + b"0" * 401 + b"]]", "is too large"),
    "larger.json": (b"[[1" + b"0" * 5003 + b"]]", "not JSON"),
    "number.json": (b"7", "not a list"),
    "object.json": (b'{"values": [[1]]}', "an object without 'keys'"),
    "binary.json": (b"\xff\xfe\x00", "not a UTF-8 text file"),
    "pickled.npy": (npy(np.array([[1, None]], dtype=object)), "pickled objects"),
    "complex.npy": (npy(np.array([[1 + 2j]])), "complex128, not real numbers"),
    "bool.npy": (npy(np.array([[True]])), "bool, not real numbers"),
    "text.npy": (npy(np.array([["1"]])), "not real numbers"),
    "dates.npy": (npy(np.array([["2026-01-01"]], dtype="M8[D]")), "not real numbers"),
    "records.npy": (npy(np.zeros(3, dtype=[("a", "f8")])), "not real numbers"),
    "flat.npy": (npy(np.arange(3.0)), "keys must be rows of numbers"),
    "scalar.npy": (npy(np.float64(3)), "keys must be rows of numbers"),
    "cube.npy": (npy(np.zeros((2, 3, 5))), "this has 3 dimensions"),
    "empty.npy": (npy(np.zeros((0, 3))), "holds no numbers"),
    "nan.npy": (npy(np.array([[1, 2], [3, np.nan]])), "entry 2, 2"),
    "cut.npy": (npy(np.eye(3))[:-8], "64 bytes of numbers, but its header says 72"),
    "longer.npy": (npy(np.eye(3)) + b"x", "73 bytes"),
    "vast.npy": (npy(np.eye(3)).replace(b"(3, 3)", b"(3000000000000000, 3)"), ".npy"),
    "negative.npy": (npy(np.eye(3)).replace(b"(3, 3), ", b"(-3, -3), "), ".npy"),
    "words.npy": (b"1,2\n3,4\n", "not a .npy file"),
    "no bytes.npy": (b"", "not a .npy file"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_matrix_is_one_line_that_says_where(tmp_path: Path, name: str) -> None:
    data, words = BAD[name]
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(UsageError) as refused:
        read_matrix(tmp_path / name, "keys")
    said = str(refused.value)
    assert words in said and said.startswith(f"{tmp_path / name}: ")
    assert "\n" not in said


def test_an_unreadable_or_endless_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with (tmp_path / "large.npy").open("wb") as sparse:
        sparse.truncate(files.LARGEST + 1)
    cases = {
        "pipe.csv": "not a file",
        ".": "not a file",
        "large.npy": "larger than 128 MB",
        "x" * 5003: "too long",
        "nul\0.csv": "null",
    }
    for name, words in cases.items():
        with pytest.raises(UsageError, match=words):
            read_matrix(tmp_path / name, "keys")
    with pytest.raises(UsageError, match="not a file"):
        read_matrix("/dev/zero", "keys")


def test_the_largest_file_is_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys.csv"
    file.write_text("1,2\n3,4\n")
    monkeypatch.setattr(files, "LARGEST", file.stat().st_size)
    assert read_matrix(file, "keys").shape == (2, 2)
    monkeypatch.setattr(files, "LARGEST", file.stat().st_size - 1)
    with pytest.raises(UsageError, match="larger than"):
        read_matrix(file, "keys")


JUNK = st.one_of(
    st.binary(max_size=61),
    st.binary(max_size=61).map(lambda b: npy(np.eye(2))[:40] + b),
    st.binary(max_size=19).map(lambda b: b"\x93NUMPY\x01\x00\x76\x00{'descr': " + b + b"}" * 99),
    st.text("[]{}1-.e,;\"'\n naif#\t\u2212", max_size=41).map(str.encode),
)


@pytest.mark.parametrize("ending", ["csv", "json", "npy", "txt", "npz", ""])
@settings(HYPOTHESIS, max_examples=300)
@example(junk=b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535)
@example(junk=b"\x93NUMPY\x01\x00\x10\x00" + b"{'descr': 'O'}  ")
@given(junk=JUNK)
def test_any_bytes_are_a_finite_rectangle_or_one_line(
    tmp_path: Path, ending: str, junk: bytes
) -> None:
    path = tmp_path / f"junk.{ending}"
    path.write_bytes(junk)
    for read in (lambda: read_matrix(path, "keys"), lambda: read_vector(str(path), "query")):
        try:
            found = read()
        except UsageError as refused:
            assert "\n" not in str(refused).removeprefix(str(path))
        else:
            assert found.dtype == np.float64 and found.size and np.isfinite(found).all()


@HYPOTHESIS
@given(values=st.lists(FINITE, min_size=1, max_size=7))
def test_a_vector_is_a_row_a_column_a_list_or_typed(tmp_path: Path, values: list[float]) -> None:
    row = np.array(values)
    ways = {
        "row.csv": spelled(row[None], ","),
        "column.csv": spelled(row[:, None], ","),
        "list.json": json.dumps(values),
        "row.json": json.dumps([values]),
        "found.json": json.dumps({"query": values, "weights": [0.5]}),
    }
    np.save(tmp_path / "flat.npy", row)
    for name, text in ways.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in (*ways, "flat.npy"):
        assert read_vector(str(tmp_path / name), "query").tobytes() == row.tobytes()
    assert read_vector(",".join(map(repr, values)), "query").tobytes() == row.tobytes()


@pytest.mark.parametrize("text", ["", "1,,2", "1,nan", "x" * 5003, "1;2", "q\0", "1,1e999"])
def test_what_is_neither_numbers_nor_a_file(text: str) -> None:
    with pytest.raises(UsageError, match=r"query is neither numbers, .* nor a file"):
        read_vector(text, "query")


def test_a_matrix_is_no_vector(tmp_path: Path) -> None:
    (tmp_path / "K.csv").write_text("1,2\n3,4\n5,6\n", encoding="utf-8")
    with pytest.raises(UsageError, match="query must be one row of numbers, this has 3 rows of 2"):
        read_vector(str(tmp_path / "K.csv"), "query")


@HYPOTHESIS
@given(parts=st.lists(st.integers(0, 1000), min_size=1, max_size=11).filter(sum))
def test_a_distribution_is_kept_and_anything_else_refused(parts: list[int]) -> None:
    """n quotients, each rounded by at most eps/2 of itself, sum to 1 within eps: far below 1e-9."""
    text = ",".join(repr(part / sum(parts)) for part in parts)
    assert read_distribution(text, "weights").tolist() == [part / sum(parts) for part in parts]
    with pytest.raises(UsageError, match=r"weights must sum to 1: these sum to 1\.00000001"):
        read_distribution(f"{text},1e-8", "weights")
    with pytest.raises(UsageError, match=rf"number {len(parts)} \(from 0\) is negative, -0\.5"):
        read_distribution(f"{text},-.5,.5", "weights")


def test_indices() -> None:
    assert indices("0,2,5", "--targets") == (0, 2, 5)
    assert indices(" 7 , -1", "--targets") == (7, -1)
    for text in ("", "0,", "1.0", "a", "0;1", "²", "9" * 5003):
        with pytest.raises(UsageError, match=r"--targets .*counted from 0"):
            indices(text, "--targets")


@HYPOTHESIS
@given(text=st.text(max_size=23))
def test_any_text_is_numbers_or_nothing(text: str) -> None:
    assert all(map(np.isfinite, numbers(text)))
