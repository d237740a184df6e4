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
from attnlab.train.atomic_folder import list_names, sha256_of_file
from attnlab.train.optimizer import optimizer_tensors, trainable_parameters
from attnlab.train.tensors import check_matching_tensors, is_sharded, model_tensors

WEIGHTS, OPTIMIZER_STATE = 1, 2  # the number in a file's name


@dataclass(frozen=True)
class ShardFiles:
    """Files of a checkpoint: those that are wanted, and all that were checked."""

    folder: Path
    files: Collection[str]
    checked: Collection[str]


def write_shards(
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
    numbers = dict.fromkeys(weights, WEIGHTS) | dict.fromkeys(memory, OPTIMIZER_STATE)
    # a mapping whose largest number names the last file, also when there is no optimizer's memory
    writer = HuggingFaceStorageWriter(
        str(folder), numbers | {"": OPTIMIZER_STATE}, save_distributed=True
    )
    try:
        return {
            name: sha256_of_file(folder / name)
            for name in _write_without_collectives(writer, mine, rank, size)
        }
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror or error}") from None


def _write_without_collectives(
    writer: Any, tensors: Mapping[str, Tensor], rank: int, size: int
) -> list[str]:
    """The steps of torch's `save` without its messages between processes, which it pickles."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(dict(tensors), is_coordinator=rank == 0)
    writer.set_up_storage_writer(rank == 0)
    plan = writer.prepare_local_plan(planner.create_local_plan())
    plan = writer.prepare_global_plan([plan] * size)[rank]  # its place is the number of the shard
    results = writer.write_data(planner.finish_plan(plan), planner).wait()
    return sorted({result.storage_data.relative_path for result in results})


def load_sharded_model(parts: ShardFiles, model: nn.Module) -> None:
    """Fill the model's own tensors, or the parts of them that it holds."""
    own = {name: tensor.detach() for name, tensor in model_tensors(model).items()}
    check_matching_tensors(own, _read_tensor_specs(parts))
    _fill(parts.folder, own)


def load_sharded_optimizer(parts: ShardFiles, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's memory by name, in parts where the model's parameter is in parts."""
    parameters = trainable_parameters(model)
    found: dict[str, Tensor] = {}
    for name, kind in _read_tensor_specs(parts).items():
        owner = parameters.get(name.rpartition(".")[0])
        if owner is not None and is_sharded(owner) and owner.shape == kind.shape:
            found[name] = torch.zeros_like(owner, dtype=kind.dtype).detach()
        else:
            found[name] = torch.zeros(kind.shape, dtype=kind.dtype)
    _fill(parts.folder, found)
    return found


def _read_tensor_specs(parts: ShardFiles) -> dict[str, Tensor]:
    """Shape and type of every tensor in the wanted files, without its numbers."""
    folder = parts.folder
    for name in sorted(set(list_names(folder)) - set(parts.checked)):
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
