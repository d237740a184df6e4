"""Batches of any shape: a dataclass, a named tuple, a mapping or a plain tensor, rows first."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from attnlab.core.errors import UsageError


class Batches(Protocol):
    """The data of a training; `batch(step)` must be a pure function, steps counting from 0."""

    def batch(self, step: int) -> Any:
        """The batch of a step: tensors whose first axis is the row."""
        ...


def map_tensors(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same kind of batch with every tensor changed; what is not a tensor stays."""
    if isinstance(batch, Tensor):
        return change(batch)
    if is_dataclass(batch) and not isinstance(batch, type):
        kept = {f.name: map_tensors(getattr(batch, f.name), change) for f in fields(batch)}
        return replace(batch, **kept)
    if isinstance(batch, Mapping):
        return {key: map_tensors(value, change) for key, value in batch.items()}
    if isinstance(batch, tuple):
        items = [map_tensors(item, change) for item in batch]
        return type(batch)(*items) if hasattr(batch, "_fields") else tuple(items)
    return batch


def tensors_of(batch: Any) -> list[Tensor]:
    """Every tensor of a batch, in the order of its fields."""
    found: list[Tensor] = []
    map_tensors(batch, lambda tensor: (found.append(tensor), tensor)[1])
    return found


def split_batch(batch: Any, number: int) -> Iterator[Any]:
    """The batch cut into at most `number` pieces of rows, as equal as they can be."""
    if number == 1:
        yield batch
        return
    rows = {tensor.shape[0] if tensor.ndim else 0 for tensor in tensors_of(batch)}
    if len(rows) != 1 or rows == {0}:
        raise UsageError(
            "accumulate, processes: a batch can be cut only if all its tensors have the same rows"
        )
    (total,) = rows
    size = -(-total // number)
    for start in range(0, total, size):
        yield map_tensors(batch, lambda tensor, at=start: tensor[at : at + size])


def fingerprint(batch: Any) -> str:
    """SHA-256 of the whole numbers of a batch: is this the data the run was trained on?

    Numbers with a fraction are left out: computed ones (a teacher's) may differ in their last bit.
    """
    digest = hashlib.sha256()
    for tensor in tensors_of(batch):
        if not tensor.is_floating_point():
            values = tensor.detach().cpu().to(torch.int64).contiguous()
            digest.update(str(tuple(values.shape)).encode() + values.numpy().tobytes())
    return digest.hexdigest()
