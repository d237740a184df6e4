"""Stored data sets come back bit for bit; anything else is refused with one of our errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.core.config import build
from attnlab.core.errors import AttnlabError, IntegrityError, UsageError
from attnlab.core.seeds import Seed
from attnlab.solvable import load_data, save_data
from attnlab.solvable.teacher import Teacher, TeacherSettings


def stored(path: Path, dtype: torch.dtype = torch.float64) -> Any:
    teacher = Teacher.draw(build(TeacherSettings, {"dim": 13, "omega": 0.1}), Seed(1))
    data = teacher.sample(7, Seed(2), dtype)
    save_data(path, teacher, data)
    return teacher, data


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_stored_data_come_back_bit_for_bit(tmp_path: Path, dtype: torch.dtype) -> None:
    teacher, data = stored(tmp_path / "data.npz", dtype)
    again, loaded = load_data(tmp_path / "data.npz")
    assert loaded.settings == data.settings and torch.equal(again.weights, teacher.weights)
    assert torch.equal(loaded.tokens, data.tokens) and torch.equal(loaded.attention, data.attention)
    with np.load(tmp_path / "data.npz") as file:  # without this package
        assert file["inputs"].shape == file["targets"].shape == (7, 2, 13)
        mixed = np.einsum("nlm,nmd->nld", file["attention"], file["inputs"])
        assert file["targets"] == pytest.approx(mixed, abs=1e-6)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "data.npz"
    stored(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for damaged in (whole[:-30], b"", flipped, b"1,2\n3,4\n"):
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError, match="not a stored data set") as error:
            load_data(path)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("targets", lambda a: a + 1e-3),
        ("attention", lambda a: a[:, ::-1]),
        ("teacher", lambda a: -2 * a),
        ("inputs", lambda a: a[:, :, :-1]),
        ("inputs", lambda a: a * np.nan),
        ("inputs", lambda a: a.astype(int)),
        ("format", lambda _: "another"),
        ("settings", lambda _: '{"dim": 14}'),
    ],
)
def test_data_that_no_teacher_made_are_refused(tmp_path: Path, name: str, change: Any) -> None:
    path = tmp_path / "data.npz"
    stored(path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, name: change(arrays[name])})
    with pytest.raises(IntegrityError):
        load_data(path)
    np.savez(path, **arrays)
    load_data(path)


def test_names_are_checked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ends in \.npz"):
        stored(tmp_path / "data.txt")
    with pytest.raises(UsageError):
        load_data(tmp_path / "absent.npz")


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_refused(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "data.npz"
    path.write_bytes(b"PK" + data)
    with pytest.raises(AttnlabError):
        load_data(path)
