"""Sharded checkpoints, written and read by torch's own safetensors storage.

Each process writes its shards; rank 0 also writes unsharded tensors, such as buffers and step
counters. Reading needs no other process: the files hold the name, shape and offset of each shard,
and a model reads what it holds, whole or sharded, however many processes wrote it.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

from attnlab.core.errors import IntegrityError, storage_errors
from attnlab.core.files import sha256_file
from attnlab.training.atomic_folder import list_names
from attnlab.training.optimizer import optimizer_tensors, trainable_parameters
from attnlab.training.tensors import check_matching_tensors, is_sharded, model_tensors

if TYPE_CHECKING:
    from attnlab.training.checkpoint import Checkpoint

WEIGHTS, OPTIMIZER_STATE = 1, 2  # the file number in the names model-0000N-of-00002


def write_shards(
    folder: Path, model: nn.Module, optimizer: Optimizer, place: tuple[int, int]
) -> dict[str, str]:
    """Write the tensors that process (rank, size) stores; return each file's SHA-256 by name."""
    rank, size = place
    weights, state = model_tensors(model), optimizer_tensors(model, optimizer)
    tensors = {
        name: tensor.detach()
        for name, tensor in (weights | state).items()
        if rank == 0 or is_sharded(tensor)
    }
    file_numbers = dict.fromkeys(weights, WEIGHTS) | dict.fromkeys(state, OPTIMIZER_STATE)
    # the largest number becomes "of-00002"; the entry "" keeps it 2 if there is no optimizer state
    writer = HuggingFaceStorageWriter(
        str(folder), file_numbers | {"": OPTIMIZER_STATE}, save_distributed=True
    )
    with storage_errors(folder):
        return {
            name: sha256_file(folder / name)
            for name in _write_without_collectives(writer, tensors, rank, size)
        }


def _write_without_collectives(
    writer: Any, tensors: Mapping[str, Tensor], rank: int, size: int
) -> list[str]:
    """Write this rank's files as torch's `save` does, without its collectives, which use pickle."""
    planner = DefaultSavePlanner()
    planner.set_up_planner(dict(tensors), is_coordinator=rank == 0)
    writer.set_up_storage_writer(rank == 0)
    plan = writer.prepare_local_plan(planner.create_local_plan())
    plan = writer.prepare_global_plan([plan] * size)[rank]  # its index: the shard's number
    results = writer.write_data(planner.finish_plan(plan), planner).wait()
    return sorted({result.storage_data.relative_path for result in results})


def load_sharded_model(checkpoint: "Checkpoint", names: Sequence[str], model: nn.Module) -> None:
    """Read the files `names` into the model in place; of a sharded tensor, this process's shard."""
    tensors = {name: tensor.detach() for name, tensor in model_tensors(model).items()}
    check_matching_tensors(tensors, _read_tensor_specs(checkpoint, names))
    _fill(checkpoint.path, tensors)


def load_sharded_optimizer(
    checkpoint: "Checkpoint", names: Sequence[str], model: nn.Module
) -> dict[str, Tensor]:
    """Read the optimizer state in the files `names`; an entry is sharded where its parameter is."""
    parameters = trainable_parameters(model)
    state: dict[str, Tensor] = {}
    for name, spec in _read_tensor_specs(checkpoint, names).items():
        owner = parameters.get(name.rpartition(".")[0])
        if owner is not None and is_sharded(owner) and owner.shape == spec.shape:
            state[name] = torch.zeros_like(owner, dtype=spec.dtype).detach()
        else:
            state[name] = torch.zeros(spec.shape, dtype=spec.dtype)
    _fill(checkpoint.path, state)
    return state


def _read_tensor_specs(checkpoint: "Checkpoint", files: Sequence[str]) -> dict[str, Tensor]:
    """Return an empty meta tensor with the shape and dtype of every tensor in the files."""
    folder = checkpoint.path
    for name in sorted(set(list_names(folder)) - checkpoint.sha256.keys()):
        if name.endswith(".safetensors"):  # torch would read every such file of the folder
            raise IntegrityError(f"{folder / name}: not a file of this checkpoint")
    try:
        metadata = HuggingFaceStorageReader(str(folder)).read_metadata()
    except (SafetensorError, ValueError, KeyError) as error:
        raise IntegrityError(f"{folder}: not safetensors: {error}") from None
    stored: Any = metadata.storage_data
    names = {at.fqn for at, where in stored.items() if Path(where.relative_path).name in files}
    specs: dict[str, Tensor] = {}
    for name in sorted(names):
        entry: Any = metadata.state_dict_metadata[name]
        if sum(math.prod(part.sizes) for part in entry.chunks) != math.prod(entry.size):
            raise IntegrityError(f"{folder}: shards of {name!r} are missing")
        specs[name] = torch.empty(entry.size, dtype=entry.properties.dtype, device="meta")
    return specs


def _fill(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Read the stored values into these tensors in place."""
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
