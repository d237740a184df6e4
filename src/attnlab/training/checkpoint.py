"""Checkpoints: complete folders or none. No pickle; the manifest holds each file's SHA-256.

    step-00000025/  model.safetensors  optimizer.safetensors  log.jsonl  state.json  MANIFEST.json

A sharded training splits the first two: the weights of process i are in
shard-i-model-00001-of-00002.safetensors, its optimizer state in shard-i-model-00002-of-00002.

A folder is written under a temporary name, synced to the disk and renamed, so it exists with all
its files or not at all. Only a checkpoint whose hashes verify is ever loaded.
"""

import hashlib
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

from attnlab.core.config import Settings
from attnlab.core.errors import IntegrityError, MissingError, storage_errors
from attnlab.core.files import sha256_file
from attnlab.core.signed import signed_text
from attnlab.training.atomic_folder import commit_folder, list_names, remove_folder
from attnlab.training.optimizer import optimizer_tensors, restore_optimizer
from attnlab.training.tensors import (
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
# 1: weights, 2: optimizer state; torch's writer chooses the names
SHARD_NAME = re.compile(r"shard-\d{5}-model-0000([12])-of-00002\.safetensors")
STEP_NAME = re.compile(r"step-(\d{8,12})")
T = TypeVar("T")


class CheckpointWarning(UserWarning):
    """A problem with checkpoints that does not stop the training."""


class NewerFormatError(IntegrityError):
    """The checkpoint was written by a later version; it is refused and left as it is."""


class State(Settings):
    """The state of a training apart from its tensors, stored as state.json."""

    step: int = 0  # steps done
    tokens: int = 0  # targets scored so far
    best_step: int | None = None
    best_value: float | None = None
    seconds: float = 0.0  # time of `timed_tokens`, for tokens per second
    timed_tokens: int = 0
    data: str = ""  # fingerprint of the last batch
    settings: dict[str, Any]
    environments: tuple[dict[str, str | int], ...] = ()  # several: not bit-comparable


@dataclass(frozen=True)
class Checkpoint:
    """A folder whose hashes verified when it was opened; `read` verifies its file again."""

    path: Path
    state: State
    sha256: dict[str, str]

    def read(self, name: str) -> bytes:
        """Read the bytes of one file and verify their SHA-256."""
        return _read_verified(self.path / name, self.sha256[name])

    def load_model(self, model: nn.Module) -> None:
        """Copy weights and buffers into the model in place; a sharded model reads its shards."""
        if self._is_sharded(model):
            from attnlab.training.sharded_checkpoint import load_sharded_model

            load_sharded_model(self, self._shard_names("1") or [MODEL], model)
        else:
            restore_model(model, from_safetensors(self.read(MODEL)))

    def load_optimizer(self, model: nn.Module, optimizer: Optimizer) -> None:
        """Load the stored optimizer state into the optimizer of this model."""
        if self._is_sharded(model):
            from attnlab.training.sharded_checkpoint import load_sharded_optimizer

            names = self._shard_names("2") or [OPTIMIZER]
            tensors = load_sharded_optimizer(self, names, model)
        else:
            tensors = from_safetensors(self.read(OPTIMIZER))
        restore_optimizer(model, optimizer, tensors)

    def _is_sharded(self, model: nn.Module) -> bool:
        return MODEL not in self.sha256 or any(map(is_sharded, model.parameters()))

    def _shard_names(self, kind: str) -> list[str]:
        """List the shard files of weights ("1") or optimizer ("2"); none if it is not sharded."""
        matches = map(SHARD_NAME.fullmatch, sorted(self.sha256))
        return [match[0] for match in matches if match and match[1] == kind]


@dataclass(frozen=True)
class Snapshot:
    """The contents of a checkpoint before it is written."""

    state: State
    model: nn.Module
    optimizer: Optimizer
    log: bytes

    def files(self, shards: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """Yield (name, bytes) one at a time, so that memory holds only one file; the manifest last.

        `shards` maps names of tensor files that are already written to their hashes.
        """
        hashes = dict(shards)
        for name, data in self._contents(tensors=not shards):
            hashes[name] = hashlib.sha256(data).hexdigest()
            yield name, data
        yield MANIFEST, manifest_text(self.state.step, hashes).encode()

    def _contents(self, tensors: bool) -> Iterator[tuple[str, bytes]]:
        if tensors:
            yield MODEL, to_safetensors(model_tensors(self.model))
            yield OPTIMIZER, to_safetensors(optimizer_tensors(self.model, self.optimizer))
        yield LOG, self.log
        yield STATE, (json.dumps(self.state.model_dump(mode="json"), indent=1) + "\n").encode()


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return the folder of a step's checkpoint, for example step-00000025."""
    return folder / f"step-{step:08d}"


def save_checkpoint(
    folder: Path, snapshot: Snapshot, shards: Mapping[str, str] | None = None
) -> Path:
    """Write the folder `step-N`; after a StorageError all earlier checkpoints are unchanged.

    `shards` holds the hashes of the tensor files if the processes have written them already.
    """
    path = checkpoint_path(folder, snapshot.state.step)
    commit_folder(path, snapshot.files(shards or {}), exist_ok=bool(shards))
    return path


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a checkpoint after verifying every file; a mismatch raises IntegrityError."""
    step, entries = _read_manifest(path)
    for name in entries.keys() - {STATE}:  # not held in memory: a shard may be large
        _check_hash(path / name, _read_file(path / name, sha256_file), entries[name])
    try:
        state = State.model_validate_json(_read_verified(path / STATE, entries[STATE]))
    except ValidationError:
        raise IntegrityError(f"{path / STATE}: not the state of a training") from None
    if state.step != step:
        raise IntegrityError(f"{path / STATE}: the state is that of step {state.step}")
    return Checkpoint(path, state, entries)


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """Open the checkpoint of the highest step that verifies, or return None.

    Each broken one that is skipped gives a CheckpointWarning. A checkpoint of a newer format, and
    a disk that cannot be read, raise an error.
    """
    for path in _paths_newest_first(folder):
        try:
            return open_checkpoint(path)
        except NewerFormatError:
            raise
        except IntegrityError as error:
            warnings.warn(f"checkpoint skipped: {error}", CheckpointWarning, stacklevel=2)
    return None


def best_checkpoint(folder: Path) -> Checkpoint:
    """Open the checkpoint with the lowest evaluation value, or the latest if none was evaluated."""
    latest = latest_checkpoint(folder)
    if latest is None:
        raise MissingError(f"{folder}: no checkpoint here")
    if latest.state.best_step in (None, latest.state.step):
        return latest
    return open_checkpoint(checkpoint_path(folder, latest.state.best_step or 0))


def prune_checkpoints(folder: Path, keep: int, newest: int) -> None:
    """Delete all checkpoints up to step `newest` but the last `keep` and their best steps.

    Later steps are left: they were skipped when the training was resumed, which will replace them.
    """
    paths = [path for path in _paths_newest_first(folder) if _step_of(path) <= newest]
    best_steps = {_best_step(path) for path in paths[:keep]}
    for path in paths[keep:]:
        if _step_of(path) not in best_steps:
            remove_folder(path)


def _paths_newest_first(folder: Path) -> list[Path]:
    paths = [folder / name for name in list_names(folder) if STEP_NAME.fullmatch(name)]
    return sorted(paths, key=_step_of, reverse=True)


def _step_of(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _best_step(path: Path) -> int | None:
    try:
        return State.model_validate_json(_read_file(path / STATE, Path.read_bytes)).best_step
    except (IntegrityError, ValidationError):
        return None


def manifest_text(step: int, files: dict[str, str]) -> str:
    """Return the text of MANIFEST.json: format, step, the hash of each file, and its own hash."""
    number = FORMAT if MODEL in files else SHARDED_FORMAT  # so that older versions refuse it
    return signed_text({"format": number, "step": step, "files": files})


def _read_manifest(path: Path) -> tuple[int, dict[str, str]]:
    """Read step and hashes; the text must be byte for byte what `manifest_text` returns."""
    where = path / MANIFEST
    data = _read_file(where, Path.read_bytes)
    try:
        manifest = json.loads(data)
        number = manifest["format"]
        if isinstance(number, int) and number > SHARDED_FORMAT:
            newer = f"(format {number}, this reads {SHARDED_FORMAT})"
            raise NewerFormatError(f"{where}: written by a newer attnlab {newer}")
        step, files = int(manifest["step"]), dict(manifest["files"])
        same = data == manifest_text(step, files).encode()
    except (KeyError, TypeError, ValueError, RecursionError):
        raise IntegrityError(f"{where}: not what was written") from None
    if not same or path.name != f"step-{step:08d}" or not _is_valid_layout(set(files)):
        raise IntegrityError(f"{where}: not what was written")
    return step, files


def _is_valid_layout(names: set[str]) -> bool:
    tensors = names - {LOG, STATE}
    sharded = any(tensors) and all(map(SHARD_NAME.fullmatch, tensors))
    return {LOG, STATE} <= names and (tensors == {MODEL, OPTIMIZER} or sharded)


def _read_verified(path: Path, sha256: str) -> bytes:
    data = _read_file(path, Path.read_bytes)
    _check_hash(path, hashlib.sha256(data).hexdigest(), sha256)
    return data


def _check_hash(path: Path, found: str, written: str) -> None:
    if found != written:
        raise IntegrityError(f"{path}: SHA-256 differs from what was written")


def _read_file(path: Path, read: Callable[[Path], T]) -> T:
    """Return read(path) of a plain file; a missing one raises IntegrityError.

    A disk that cannot be read raises StorageError, because the checkpoint must not be skipped: it
    may be complete, and going on without it would replace it.
    """
    if path.is_symlink() or not path.is_file():
        raise IntegrityError(f"{path}: missing" if not path.exists() else f"{path}: not a file")
    with storage_errors(path):
        return read(path)
