"""Models to safetensors bytes and back: names, shapes and types must agree; tied tensors once."""

from collections.abc import Mapping
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from attnlab.core.errors import IntegrityError, UsageError


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name; of tensors that are one, the first name."""
    seen: set[int] = set()
    found: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor
    return found


def restore_model(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy the tensors into the model's own, so that ties and optimizers keep hold of them."""
    own = model_tensors(model)
    check_matching_tensors(own, tensors)
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def check_matching_tensors(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """What is stored must have the model's names, shapes and types."""
    for name in sorted(own.keys() ^ tensors.keys()):
        where = "checkpoint" if name in own else "model"
        raise UsageError(f"the checkpoint is of another model: the {where} has no {name!r}")
    for name, tensor in own.items():
        stored = tensors[name]
        if stored.shape != tensor.shape or stored.dtype != tensor.dtype:
            raise UsageError(
                f"the checkpoint is of another model: {name!r} is {_kind(stored)} there, "
                f"{_kind(tensor)} here"
            )


def is_sharded(tensor: Tensor) -> bool:
    """Whether other processes hold parts of it; asked so that DTensor need not be imported."""
    return hasattr(tensor, "to_local")


def local_tensor(tensor: Any) -> Tensor:
    """What of a tensor lies in this process: all of it, unless it is sharded."""
    return tensor.to_local() if is_sharded(tensor) else tensor


def to_safetensors(tensors: Mapping[str, Tensor]) -> bytes:
    """safetensors bytes, the same for equal tensors."""
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
    """The tensors in safetensors bytes, on the CPU."""
    try:
        return load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise IntegrityError(f"not safetensors: {error}") from None


def _dtype_and_shape(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"
