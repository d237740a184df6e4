"""Batches of any structure: a dataclass, named tuple, mapping or tensor, with rows on axis 0."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from attnlab.core.errors import UsageError


class Batches(Protocol):
    """Training data; `batch(step)` must be a pure function, with steps counted from 0."""

    def batch(self, step: int) -> Any:
        """Return the batch of a step; the first axis of every tensor is the row."""
        ...


def map_tensors(batch: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return a batch of the same structure with `function` applied to every tensor."""
    if isinstance(batch, Tensor):
        return function(batch)
    if is_dataclass(batch) and not isinstance(batch, type):
        values = {f.name: map_tensors(getattr(batch, f.name), function) for f in fields(batch)}
        return replace(batch, **values)
    if isinstance(batch, Mapping):
        return {key: map_tensors(value, function) for key, value in batch.items()}
    if isinstance(batch, tuple):
        items = [map_tensors(item, function) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else tuple(items)
    return batch


def tensors_of(batch: Any) -> list[Tensor]:
    """List every tensor of a batch, nested ones too, in the order of its fields."""
    tensors: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(batch, collect)
    return tensors


def split_batch(batch: Any, number: int) -> Iterator[Any]:
    """Split the rows of a batch into at most `number` batches of ⌈rows / number⌉ rows each.

    The last batch may be smaller. Every tensor must have the same number of rows.
    """
    if number == 1:
        yield batch
        return
    rows = {tensor.shape[0] if tensor.ndim else 0 for tensor in tensors_of(batch)}
    if len(rows) != 1 or rows == {0}:
        raise UsageError(
            "accumulate, processes: a batch can be split only if all its tensors have "
            "the same number of rows"
        )
    (total,) = rows
    size = -(-total // number)
    for start in range(0, total, size):
        yield map_tensors(batch, lambda tensor, at=start: tensor[at : at + size])


def fingerprint(batch: Any) -> str:
    """SHA-256 of the integer tensors of a batch, to recognise the data a run was trained on.

    Floating-point tensors are left out: computed ones (a teacher's) may differ in their last bit.
    """
    digest = hashlib.sha256()
    for tensor in tensors_of(batch):
        if not tensor.is_floating_point():
            values = tensor.detach().cpu().to(torch.int64).contiguous()
            digest.update(str(tuple(values.shape)).encode() + values.numpy().tobytes())
    return digest.hexdigest()
