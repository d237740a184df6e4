"""Checkpoints: whole folders or none. No pickle; every file under its SHA-256.

    step-00000025/  model.safetensors  optimizer.safetensors  log.jsonl  state.json  MANIFEST.json

Of a sharded training the first two are cut: the weights of process i lie in
shard-i-model-00001-of-00002.safetensors, its part of the optimizer in shard-i-model-00002-of-00002.

A folder is written under a temporary name, brought to the disk and renamed; it is there with all
its files or not at all. Only what verifies is ever loaded.
"""

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from torch import nn
from torch.optim import Optimizer

from attnlab.core.config import Settings, content_hash
from attnlab.core.errors import IntegrityError, MissingError, StorageError
from attnlab.train.atomic_folder import (
    commit_folder,
    list_names,
    remove_folder,
    sha256_of,
    sha256_of_file,
)
from attnlab.train.optimizer import optimizer_tensors, restore_optimizer
from attnlab.train.tensors import (
    from_safetensors,
    is_sharded,
    model_tensors,
    restore_model,
    to_safetensors,
)

FORMAT, SHARDED_FORMAT = 1, 2
MANIFEST = "MANIFEST.json"
MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
LOG, STATE = "log.jsonl", "state.json"
FILES = (MODEL, OPTIMIZER, LOG, STATE)
# 1: weights, 2: optimizer; the names are those of torch's writer
SHARD_NAME = re.compile(r"shard-\d{5}-model-0000([12])-of-00002\.safetensors")
STEP_NAME = re.compile(r"step-(\d{8,12})")
T = TypeVar("T")


class CheckpointWarning(UserWarning):
    """Something about checkpoints a person should read; the training goes on."""


class NewerFormatError(IntegrityError):
    """Written by a later version: refused, and nothing is touched."""


class State(Settings):
    """Where a training stands, apart from its tensors."""

    step: int = 0  # steps done
    tokens: int = 0  # scored so far
    best_step: int | None = None
    best_value: float | None = None
    seconds: float = 0.0  # of `timed_tokens`: what the speed is computed from
    timed_tokens: int = 0
    data: str = ""  # fingerprint of the last batch
    settings: dict[str, Any]
    environments: tuple[dict[str, str | int], ...] = ()  # more than one: bits need not repeat


@dataclass(frozen=True)
class Checkpoint:
    """A folder that verified when it was opened; each read of a whole file is checked again."""

    path: Path
    state: State
    sha256: dict[str, str]

    def read(self, name: str) -> bytes:
        """The bytes of one file, exactly as written."""
        return _read_verified(self.path / name, self.sha256[name])

    def load_model(self, model: nn.Module) -> None:
        """Copy the stored weights and buffers into the model; a sharded one reads its part."""
        if self._is_cut(model):
            from attnlab.train.sharded_checkpoint import ShardFiles, load_sharded_model

            load_sharded_model(
                ShardFiles(self.path, self._shards("1") or [MODEL], self.sha256), model
            )
        else:
            restore_model(model, from_safetensors(self.read(MODEL)))

    def load_optimizer(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Copy the stored memory into the optimizer of this model."""
        if self._is_cut(model):
            from attnlab.train.sharded_checkpoint import ShardFiles, load_sharded_optimizer

            parts = ShardFiles(self.path, self._shards("2") or [OPTIMIZER], self.sha256)
            tensors = load_sharded_optimizer(parts, model)
        else:
            tensors = from_safetensors(self.read(OPTIMIZER))
        restore_optimizer(model, optimizer, tensors)

    def _is_cut(self, model: nn.Module) -> bool:
        return MODEL not in self.sha256 or any(map(is_sharded, model.parameters()))

    def _shards(self, kind: str) -> list[str]:
        """The files of process 1, 2 …; none if the checkpoint is not sharded."""
        found = map(SHARD_NAME.fullmatch, sorted(self.sha256))
        return [match[0] for match in found if match and match[1] == kind]


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint is made of."""

    state: State
    model: nn.Module
    optimizer: Optimizer
    log: bytes

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Name and bytes, one at a time: the largest decides how much memory it takes."""
        yield MODEL, to_safetensors(model_tensors(self.model))
        yield OPTIMIZER, to_safetensors(optimizer_tensors(self.model, self.optimizer))
        yield from self.notes()

    def notes(self) -> Iterator[tuple[str, bytes]]:
        """What is stored besides tensors."""
        yield LOG, self.log
        yield STATE, (json.dumps(self.state.model_dump(mode="json"), indent=1) + "\n").encode()

    def sealed(self, shards: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """The files, then the manifest that names the hash of each, and of shards already there."""
        hashes = dict(shards)
        for name, data in self.notes() if shards else self.files():
            hashes[name] = sha256_of(data)
            yield name, data
        yield MANIFEST, manifest_text(self.state.step, hashes).encode()


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return folder / f"step-{step:08d}"


def save_checkpoint(
    folder: Path, snapshot: Snapshot, shards: Mapping[str, str] | None = None
) -> Path:
    """Commit `step-N`; StorageError leaves every earlier checkpoint as it was.

    `shards`: the hashes of the tensors' files, if the processes have written them.
    """
    path = checkpoint_path(folder, snapshot.state.step)
    commit_folder(path, snapshot.sealed(shards or {}), begun=bool(shards))
    return path


def open_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in this folder after every byte was checked, or IntegrityError."""
    step, entries = _read_manifest(path)
    for name in entries.keys() - {STATE}:
        _verify_hash(path / name, entries[name])
    try:
        state = State.model_validate_json(_read_verified(path / STATE, entries[STATE]))
    except ValidationError:
        raise IntegrityError(f"{path / STATE}: not the state of a training") from None
    if state.step != step:
        raise IntegrityError(f"{path / STATE}: of step {state.step}")
    return Checkpoint(path, state, entries)


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """The highest step that verifies; each one passed over gives a CheckpointWarning.

    None when there is none, and the training begins anew. A newer format and a disk that cannot
    be read raise.
    """
    for path in _paths_newest_first(folder):
        try:
            return open_checkpoint(path)
        except NewerFormatError:
            raise
        except IntegrityError as error:
            warnings.warn(f"checkpoint passed over: {error}", CheckpointWarning, stacklevel=2)
    return None


def best_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint of the lowest evaluation so far, or of the last step if none was evaluated."""
    found = latest_checkpoint(folder)
    if found is None:
        raise MissingError(f"{folder}: no checkpoint here")
    if found.state.best_step in (None, found.state.step):
        return found
    return open_checkpoint(checkpoint_path(folder, found.state.best_step or 0))


def prune_checkpoints(folder: Path, keep: int, newest: int) -> None:
    """Of the steps up to `newest` keep the last `keep`, and what one of those calls the best.

    Later steps were passed over when the training was resumed; it will replace them.
    """
    paths = [path for path in _paths_newest_first(folder) if _step_of(path) <= newest]
    wanted = {_best_step(path) for path in paths[:keep]}
    for path in paths[keep:]:
        if _step_of(path) not in wanted:
            remove_folder(path)


def _paths_newest_first(folder: Path) -> list[Path]:
    found = [folder / name for name in list_names(folder) if STEP_NAME.fullmatch(name)]
    return sorted(found, key=_step_of, reverse=True)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _best_step(path: Path) -> int | None:
    try:
        return State.model_validate_json(_read_bytes(path / STATE)).best_step
    except (IntegrityError, ValidationError):
        return None


def manifest_text(step: int, files: dict[str, str]) -> str:
    """The one text a manifest may have: format, step, the hash of each file, and its own."""
    number = FORMAT if MODEL in files else SHARDED_FORMAT  # so that older versions refuse it
    value = {"format": number, "step": step, "files": files}
    return json.dumps({**value, "sha256": content_hash(value)}, indent=1) + "\n"


def _read_manifest(path: Path) -> tuple[int, dict[str, str]]:
    """Step and hashes; the text must be, byte for byte, what we would write for them."""
    where = path / MANIFEST
    data = _read_bytes(where)
    try:
        found = json.loads(data)
        _refuse_newer(where, found["format"])
        step, files = int(found["step"]), dict(found["files"])
        same = data == manifest_text(step, files).encode()
    except (KeyError, TypeError, ValueError, RecursionError):
        raise IntegrityError(f"{where}: not what was written") from None
    if not same or path.name != f"step-{step:08d}" or not _is_valid_layout(set(files)):
        raise IntegrityError(f"{where}: not what was written")
    return step, files


def _is_valid_layout(names: set[str]) -> bool:
    tensors = names - {LOG, STATE}
    cut = any(tensors) and all(map(SHARD_NAME.fullmatch, tensors))
    return {LOG, STATE} <= names and (tensors == {MODEL, OPTIMIZER} or cut)


def _refuse_newer(where: Path, number: object) -> None:
    if isinstance(number, int) and number > SHARDED_FORMAT:
        raise NewerFormatError(
            f"{where}: written by a newer attnlab (format {number}, this reads {SHARDED_FORMAT})"
        )


def _read_verified(path: Path, sha256: str) -> bytes:
    data = _read_bytes(path)
    if sha256_of(data) != sha256:
        raise IntegrityError(f"{path}: SHA-256 differs from what was written")
    return data


def _verify_hash(path: Path, sha256: str) -> None:
    """The same without holding the file: a shard may be large."""
    if _read_file(path, sha256_of_file) != sha256:
        raise IntegrityError(f"{path}: SHA-256 differs from what was written")


def _read_bytes(path: Path) -> bytes:
    return _read_file(path, Path.read_bytes)


def _read_file(path: Path, read: Callable[[Path], T]) -> T:
    """What is read from a plain file. A disk that refuses is no reason to pass a checkpoint over:
    it may be whole, and going on without it would replace it."""
    if path.is_symlink() or not path.is_file():
        raise IntegrityError(f"{path}: missing" if not path.exists() else f"{path}: not a file")
    try:
        return read(path)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from None
