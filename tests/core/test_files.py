"""Files are whole or absent, and JSON is read back only as it was written."""

import hashlib
import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.core import files
from attnlab.core.errors import IntegrityError, StorageError, UsageError
from attnlab.core.files import (
    read_json,
    sha256_file,
    sha256_of_setting,
    sync,
    write_bytes,
    write_json,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_write_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a.bin"
    write_bytes(path, b"old")
    write_bytes(path, b"new" * 7)
    assert path.read_bytes() == b"new" * 7
    assert names(path.parent) == ["a.bin"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failure_at_any_step_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, step, full)
    with pytest.raises(StorageError, match=r"a\.txt: No space left"):
        write_text(path, "new")
    monkeypatch.undo()
    assert path.read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["a.txt"]


def test_file_and_folder_are_synced_before_the_write_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    sync, replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        seen.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def rename(source: str, target: str) -> None:
        seen.append("rename")
        replace(source, target)

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files.os, "replace", rename)
    write_bytes(tmp_path / "a", b"x")
    assert seen == ["file", "rename", "folder"]


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        write_bytes(tmp_path / "file" / "a", b"x")
    with pytest.raises(StorageError):
        write_bytes(tmp_path, b"x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": NaN}',
        "[Infinity]",
        "-Infinity",
        '{"a": 1, "a": 2}',
        "[" * 100_003,
        '{"a":' * 100_003,
        "nul",
        '"\ud800"'.encode("utf-8", "surrogatepass"),
        b"\xff\xfe",
    ],
)
def test_read_json_refuses_what_was_not_written(tmp_path: Path, text: str | bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(IntegrityError, match=r"a\.json"):
        read_json(path)


def test_read_json_refuses_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="missing"):
        read_json(tmp_path / "none")
    with pytest.raises(IntegrityError, match="Is a directory"):
        read_json(tmp_path)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(10**30), 10**30)
        | st.text(max_size=7)
        | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner),
        max_leaves=11,
    )
)
@settings(max_examples=60, derandomize=True, deadline=None)
def test_json_round_trip(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.getbasetemp() / "round.json"
    write_json(path, value)
    assert read_json(path) == value


@given(st.binary(max_size=53))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_any_bytes_are_json_or_an_integrity_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(data)
    try:
        assert read_json(path) == json.loads(data.decode())
    except IntegrityError as error:
        assert "any.json" in str(error)


def test_write_json_refuses_nan_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"b": 1, "a": "α"})
    assert path.read_text(encoding="utf-8") == '{\n "b": 1,\n "a": "α"\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, float("nan"))
    assert read_json(path) == {"b": 1, "a": "α"}


def test_sha256_of_a_file(tmp_path: Path) -> None:
    data = bytes(range(251)) * 4099
    (tmp_path / "a").write_bytes(data)
    assert sha256_file(tmp_path / "a") == hashlib.sha256(data).hexdigest()


def test_sha256_of_what_a_setting_names(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    named = str(tmp_path / "a")
    assert sha256_of_setting("data", named, ("xsum",)) == sha256_file(tmp_path / "a")
    assert {sha256_of_setting("data", value, ("xsum",)) for value in ("", "xsum", None)} == {""}
    with pytest.raises(UsageError, match="data 'nowhere': neither xsum nor a file"):
        sha256_of_setting("data", "nowhere", ("xsum",))
    with pytest.raises(UsageError, match="prompts 'nowhere': no file"):
        sha256_of_setting("prompts", "nowhere")


def test_new_folders_have_their_names_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise power loss takes a whole output folder along, with what was stored in it."""
    synced: list[str] = []
    real = files.sync

    def noted(folder: Path) -> None:
        synced.append(str(folder.relative_to(tmp_path)))
        real(folder)

    monkeypatch.setattr(files, "sync", noted)
    write_bytes(tmp_path / "a" / "b" / "c", b"x")
    assert synced == [".", "a", "a/b"]
    write_bytes(tmp_path / "a" / "b" / "d", b"x")
    assert synced[3:] == ["a/b"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files by /proc")
def test_syncing_a_folder_leaves_nothing_open(tmp_path: Path) -> None:
    sync(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        sync(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
