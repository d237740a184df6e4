"""Models as safetensors bytes and back; names, shapes and dtypes must agree; tied tensors once."""

from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from attnlab.core.errors import IntegrityError, UsageError


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and persistent buffers by name; tied tensors under their first name."""
    seen: set[int] = set()
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            tensors[name] = tensor
    return tensors


def restore_model(model: nn.Module, stored: Mapping[str, Tensor]) -> None:
    """Copy the stored tensors into the model in place, so that ties and optimizers stay valid."""
    tensors = model_tensors(model)
    check_matching_tensors(tensors, stored)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(stored[name])


class BestWeights:
    """A copy in memory of the weights with the lowest error so far."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.error = model, float("inf")
        self.tensors: dict[str, Tensor] = {}

    def update(self, error: float) -> None:
        """Keep the present weights if this error is the lowest."""
        if error < self.error:
            self.error = error
            self.tensors = {k: v.detach().clone() for k, v in model_tensors(self.model).items()}

    def restore(self) -> None:
        """Load the kept weights; where no error was a number, the present ones stay."""
        if self.tensors:
            restore_model(self.model, self.tensors)


def check_matching_tensors(tensors: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> None:
    """Raise UsageError unless the stored tensors have the model's names, shapes and dtypes."""
    for name in sorted(tensors.keys() ^ stored.keys()):
        where = "checkpoint" if name in tensors else "model"
        raise UsageError(f"the checkpoint is of another model: the {where} has no {name!r}")
    for name, tensor in tensors.items():
        other = stored[name]
        if other.shape != tensor.shape or other.dtype != tensor.dtype:
            raise UsageError(
                f"the checkpoint is of another model: {name!r} is {_dtype_and_shape(other)} there, "
                f"{_dtype_and_shape(tensor)} here"
            )


def is_sharded(tensor: Tensor) -> bool:
    """Tell whether this is a DTensor, without importing the DTensor class."""
    return hasattr(tensor, "to_local")


def local_tensor(tensor: Any) -> Tensor:
    """Return this process's shard of a DTensor; any other tensor is returned as it is."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def to_safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Encode tensors as safetensors; equal tensors give equal bytes."""
    plain = {name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}
    seen: set[int] = set()
    for name, tensor in plain.items():
        storage = tensor.untyped_storage()
        # safetensors refuses memory that is shared or larger than its tensor
        if storage.data_ptr() in seen or storage.nbytes() != tensor.nbytes:
            plain[name] = tensor.clone()
        seen.add(storage.data_ptr())
    return save(plain)


def from_safetensors(data: bytes) -> dict[str, Tensor]:
    """Decode safetensors bytes into tensors on the CPU; broken bytes raise IntegrityError."""
    try:
        return load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise IntegrityError(f"not safetensors: {error}") from None


def _dtype_and_shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
