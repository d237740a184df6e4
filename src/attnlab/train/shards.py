"""The tensors of a checkpoint in parts, through torch's own writer and reader of safetensors.

Each process writes what it holds; what is in no parts, buffers and counters, is written by the
first. Reading needs no other process: names, shapes and the place of each part are in the files,
and a model takes from them what it holds, be it all or a part, written by however many.
"""

import math
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.optim import Optimizer

from attnlab.core.errors import IntegrityError, StorageError
from attnlab.train.folder import names_in, sha256_of_file
from attnlab.train.optimizer import optimizer_tensors, trainable
from attnlab.train.tensors import is_sharded, model_tensors, refuse_others

WEIGHTS, MEMORY = 1, 2  # the number in a file's name


@dataclass(frozen=True)
class Parts:
    """Files of a checkpoint: those that are wanted, and all that were checked."""

    folder: Path
    files: Collection[str]
    checked: Collection[str]


def write_parts(
    folder: Path, model: nn.Module, optimizer: Optimizer, place: tuple[int, int]
) -> dict[str, str]:
    """Write what process `rank` of `size` is to store; the SHA-256 of each file, by its name."""
    rank, size = place
    weights, memory = model_tensors(model), optimizer_tensors(model, optimizer)
    mine = {
        name: tensor.detach()
        for name, tensor in (weights | memory).items()
        if rank == 0 or is_sharded(tensor)
    }
    numbers = dict.fromkeys(weights, WEIGHTS) | dict.fromkeys(memory, MEMORY)
    # a mapping whose largest number names the last file, also when there is no optimizer's memory
    writer = HuggingFaceStorageWriter(str(folder), numbers | {"": MEMORY}, save_distributed=True)
    try:
        return {name: sha256_of_file(folder / name) for name in _written(writer, mine, rank, size)}
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror or error}") from None


def _written(writer: Any, tensors: Mapping[str, Tensor], rank: int, size: int) -> list[str]:
    """The steps of torch's `save` without its messages between processes, which it pickles."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(dict(tensors), is_coordinator=rank == 0)
    writer.set_up_storage_writer(rank == 0)
    plan = writer.prepare_local_plan(planner.create_local_plan())
    plan = writer.prepare_global_plan([plan] * size)[rank]  # its place is the number of the shard
    results = writer.write_data(planner.finish_plan(plan), planner).wait()
    return sorted({result.storage_data.relative_path for result in results})


def read_model(parts: Parts, model: nn.Module) -> None:
    """Fill the model's own tensors, or the parts of them that it holds."""
    own = {name: tensor.detach() for name, tensor in model_tensors(model).items()}
    refuse_others(own, _kinds(parts))
    _fill(parts.folder, own)


def read_optimizer(parts: Parts, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's memory by name, in parts where the model's parameter is in parts."""
    parameters = trainable(model)
    found: dict[str, Tensor] = {}
    for name, kind in _kinds(parts).items():
        owner = parameters.get(name.rpartition(".")[0])
        if owner is not None and is_sharded(owner) and owner.shape == kind.shape:
            found[name] = torch.zeros_like(owner, dtype=kind.dtype).detach()
        else:
            found[name] = torch.zeros(kind.shape, dtype=kind.dtype)
    _fill(parts.folder, found)
    return found


def _kinds(parts: Parts) -> dict[str, Tensor]:
    """Shape and type of every tensor in the wanted files, without its numbers."""
    folder = parts.folder
    for name in sorted(set(names_in(folder)) - set(parts.checked)):
        if name.endswith(".safetensors"):  # torch reads every one that lies in a folder
            raise IntegrityError(f"{folder / name}: not a file of this checkpoint")
    try:
        found = HuggingFaceStorageReader(str(folder)).read_metadata()
    except (SafetensorError, ValueError, KeyError) as error:
        raise IntegrityError(f"{folder}: not safetensors: {error}") from None
    stored: Any = found.storage_data
    names = {
        at.fqn for at, where in stored.items() if Path(where.relative_path).name in parts.files
    }
    kinds: dict[str, Tensor] = {}
    for name in sorted(names):
        entry: Any = found.state_dict_metadata[name]
        if sum(math.prod(part.sizes) for part in entry.chunks) != math.prod(entry.size):
            raise IntegrityError(f"{folder}: parts of {name!r} are missing")
        kinds[name] = torch.empty(entry.size, dtype=entry.properties.dtype, device="meta")
    return kinds


def _fill(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Copy the stored numbers into these tensors."""
    if not tensors:
        return
    reader = HuggingFaceStorageReader(str(folder))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        try:
            load(dict(tensors), storage_reader=reader, no_dist=True)
        except CheckpointException as error:
            (problem, _), *_ = error.failures.values()
            raise IntegrityError(f"{folder}: {problem}") from None
