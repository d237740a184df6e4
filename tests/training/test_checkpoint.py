"""Incomplete saves and damaged files: the previous checkpoint is used, with a warning."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attnlab.core.errors import IntegrityError, MissingError, StorageError
from attnlab.training.checkpoint import (
    FILES,
    MANIFEST,
    MODEL,
    OPTIMIZER,
    SHARDED_FORMAT,
    STATE,
    CheckpointWarning,
    best_checkpoint,
    latest_checkpoint,
    open_checkpoint,
)
from attnlab.training.loop import train
from attnlab.training.optimizer import build_optimizer, optimizer_tensors
from attnlab.training.tensors import from_safetensors, model_tensors, restore_model, to_safetensors

from .test_loop import run, steps_in, stopping
from .tiny import Endless, Tiny, digest, settings

ALL = (*FILES, MANIFEST)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the checkpoints of steps 6 and 9 of 12; tests copy it and never change it."""
    folder = tmp_path_factory.mktemp("stored")
    run(folder, stopping(9), evaluate_every=0)
    return folder


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("whole")
    run(folder, evaluate_every=0)
    return digest(folder)


@pytest.fixture
def own(stored: Path, in_memory: Path) -> Path:
    return shutil.copytree(stored, in_memory / "own")


def goes_on(folder: Path, wanted: str, problem: str) -> None:
    """Resume from step 6, with a warning about step 9, and end with the same bits."""
    with pytest.warns(CheckpointWarning, match=problem):
        found = latest_checkpoint(folder)
    assert found is not None and found.state.step == 6
    with pytest.warns(CheckpointWarning, match=problem):
        run(folder, evaluate_every=0)
    assert digest(folder) == wanted


@pytest.mark.parametrize("count", range(len(ALL)))
def test_each_prefix_of_a_save_is_passed_over(own: Path, wanted: str, count: int) -> None:
    """Worse than what a kill can leave: the final folder with only its first files."""
    newest = own / "step-00000009"
    for name in ALL[count:]:
        (newest / name).unlink()
    goes_on(own, wanted, "missing")


def test_what_was_passed_over_does_not_count_as_kept(own: Path) -> None:
    (own / "step-00000009" / MODEL).unlink()
    with pytest.warns(CheckpointWarning):
        run(own, stopping(1), evaluate_every=0)
    assert steps_in(own) == [6, 7, 9], "two that are whole"


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "flip": flipped,
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "short": lambda data: data[:-1],
    "long": lambda data: data + b"\n",
    "zeros": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", ALL)
def test_each_damaged_file_is_found(own: Path, name: str, damage: str) -> None:
    path = own / "step-00000009" / name
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with pytest.raises(IntegrityError, match=name):
        open_checkpoint(path.parent)
    with pytest.warns(CheckpointWarning, match=name):
        found = latest_checkpoint(own)
    assert found is not None and found.state.step == 6


@pytest.mark.parametrize("name", ALL)
def test_each_damaged_file_costs_steps_not_bits(own: Path, wanted: str, name: str) -> None:
    path = own / "step-00000009" / name
    path.write_bytes(flipped(path.read_bytes()))
    goes_on(own, wanted, name)


def test_every_bit_of_a_manifest_counts(own: Path) -> None:
    path = own / "step-00000009" / MANIFEST
    data = path.read_bytes()
    for index in range(len(data)):
        path.write_bytes(data[:index] + bytes([data[index] ^ (1 << index % 7)]) + data[index + 1 :])
        with pytest.raises(IntegrityError):
            open_checkpoint(path.parent)
    path.write_bytes(data)
    assert open_checkpoint(path.parent).state.step == 9


def test_swapped_renamed_linked(own: Path) -> None:
    newest, older = own / "step-00000009", own / "step-00000006"
    shutil.copytree(newest, own / "step-00000011")
    (newest / MODEL).rename(newest / "x")
    (newest / OPTIMIZER).rename(newest / MODEL)
    (newest / "x").rename(newest / OPTIMIZER)
    with pytest.warns(CheckpointWarning) as said:
        found = latest_checkpoint(own)
    assert found is not None and found.path == older
    assert ["step-00000011" in str(w.message) for w in said] == [True, False]
    shutil.rmtree(newest)
    os.symlink(older, newest)
    (older / MODEL).rename(own / "weights")
    os.symlink(own / "weights", older / MODEL)
    with pytest.raises(IntegrityError, match="not a file"):
        open_checkpoint(older)


def test_all_damaged_begins_anew(own: Path, wanted: str) -> None:
    for path in own.glob("step-*"):
        (path / STATE).unlink()
    with pytest.raises(MissingError), pytest.warns(CheckpointWarning):
        best_checkpoint(own)
    with pytest.warns(CheckpointWarning):
        run(own, evaluate_every=0)
    assert digest(own) == wanted


def test_a_newer_format_is_refused_untouched(own: Path) -> None:
    path = own / "step-00000009" / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": SHARDED_FORMAT + 1}))
    before = {file: file.read_bytes() for file in own.rglob("*") if file.is_file()}
    with pytest.raises(IntegrityError, match="newer attnlab"):
        run(own, evaluate_every=0)
    assert before == {file: file.read_bytes() for file in own.rglob("*") if file.is_file()}


def test_a_disk_that_cannot_be_read_is_no_damage(
    own: Path, monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    """Skipping a valid checkpoint after a read error would replace it."""

    def refusing(path: Path) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", refusing)
        with pytest.raises(StorageError, match=r"step-00000009/MANIFEST.json: Input/output error"):
            run(own, evaluate_every=0)
    run(own, evaluate_every=0)
    assert digest(own) == wanted


def test_written_then_on_the_disk_then_named(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file and the folder are synced after their last write and before the rename."""
    events: list[tuple[str, str]] = []
    opened: dict[int, str] = {}
    real_open, real_fsync, real_rename = os.open, os.fsync, os.rename
    real_write = Path.write_bytes

    def noting_open(path: Any, *args: Any, **more: Any) -> int:
        handle = real_open(path, *args, **more)
        opened[handle] = Path(path).name
        return handle

    def noting_fsync(handle: int) -> None:
        events.append(("fsync", opened.get(handle, "?")))
        real_fsync(handle)

    def noting_rename(before: Path, after: Path) -> None:
        events.append(("rename", f"{Path(before).name} {Path(after).name}"))
        real_rename(before, after)

    def noting_write(path: Path, data: bytes) -> int:
        events.append(("write", path.name))
        return real_write(path, data)

    monkeypatch.setattr(os, "open", noting_open)
    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "rename", noting_rename)
    monkeypatch.setattr(Path, "write_bytes", noting_write)
    run(own, stopping(1), evaluate_every=0)
    partial, target = ".partial-step-00000010", "step-00000010"
    named = events.index(("rename", f"{partial} {target}"))
    last_write = max(at for at, (what, _) in enumerate(events) if what == "write")
    assert [name for what, name in events if what == "write"] == list(ALL)
    for name in ALL:
        assert events.index(("write", name)) < events.index(("fsync", name)) < named
    assert last_write < events.index(("fsync", partial)) < named
    assert events[named + 1] == ("fsync", own.name), "then the name itself"


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "checkpoints"):
        with pytest.raises(StorageError, match=str(folder)):
            run(folder)


def test_a_model_goes_through_bytes_unchanged() -> None:
    model, other = Tiny(), Tiny(seed=8)
    for module in (model, other):
        module.register_buffer("turned", torch.randn(3, 5).T)  # not contiguous
        module.register_buffer("part", torch.randn(11)[2:5])  # of a larger memory
        module.register_buffer("short", torch.randn(2).bfloat16())
        module.register_buffer("empty", torch.zeros(0))
    stored = model_tensors(model)
    assert "head.weight" not in stored, "tied to the embedding: once"
    data = to_safetensors(stored)
    restore_model(other, from_safetensors(data))
    assert to_safetensors(model_tensors(other)) == data
    assert other.head.weight is other.embedding.weight
    view = torch.randn(4)
    assert from_safetensors(to_safetensors({"a": view, "b": view.view(2, 2)}))["b"].shape == (2, 2)
    with pytest.raises(IntegrityError, match="not safetensors"):
        from_safetensors(data[:-1])


def test_an_optimizer_of_another_model_is_refused(own: Path) -> None:
    found = latest_checkpoint(own)
    assert found is not None
    model = Tiny()
    optimizer = build_optimizer(model, settings())
    found.load_optimizer(model, optimizer)
    assert to_safetensors(optimizer_tensors(model, optimizer)) == found.read(OPTIMIZER)
    other = nn.ModuleDict({"mix": nn.Linear(7, 7)})
    with pytest.raises(IntegrityError, match="no parameter"):
        found.load_optimizer(other, build_optimizer(other, settings()))


def test_the_folder_need_not_be_there(in_memory: Path) -> None:
    assert latest_checkpoint(in_memory / "none") is None
    with pytest.raises(MissingError, match="no checkpoint"):
        best_checkpoint(in_memory / "none")
    deep = in_memory / "a" / "b"
    train(Tiny(), Endless(), settings(), checkpoints=deep)
    assert best_checkpoint(deep).state.step == 12
