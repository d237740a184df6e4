"""Modules and tensors that a function uses: in its closure, object, defaults and globals."""

import types
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

DEPTH = 4


class Collection(nn.Module):
    """Several modules and tensors, to be treated as one module."""

    def __init__(self, modules: list[nn.Module], tensors: list[Tensor]) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            self.add_module(f"module_{i}", module)
        for i, tensor in enumerate(tensors):
            self.register_buffer(f"tensor_{i}", tensor)


def captured_modules(function: Any) -> nn.Module | None:
    """The module a function is or uses, or a collection of several; None: there is none."""
    items = list({id(item): item for item in _walk(function, DEPTH, set())}.values())
    modules = [item for item in items if isinstance(item, nn.Module)]
    tensors = [item for item in items if isinstance(item, Tensor)]
    if not items:
        return None
    return modules[0] if len(modules) == 1 and not tensors else Collection(modules, tensors)


def device_of(module: nn.Module | None) -> torch.device | None:
    """The device of its weights; None where it has none."""
    weights = () if module is None else chain(module.parameters(), module.buffers())
    return next((weight.device for weight in weights), None)


@contextmanager
def on_cpu(module: nn.Module | None) -> Iterator[None]:
    """Move to the CPU meanwhile: there an id out of range raises, on a GPU it ends the process."""
    device = device_of(module)
    if module is None or device is None or device.type == "cpu":
        yield
        return
    module.to("cpu")
    try:
        yield
    finally:
        module.to(device)


def _walk(item: Any, depth: int, seen: set[int]) -> Iterator[nn.Module | Tensor]:
    if isinstance(item, nn.Module) or (isinstance(item, Tensor) and item.is_floating_point()):
        yield item
    elif depth and id(item) not in seen:
        seen.add(id(item))
        for part in _held_objects(item):
            yield from _walk(part, depth - 1, seen)


def _held_objects(item: Any) -> list[Any]:
    """Objects held by an object that it may call."""
    if isinstance(item, partial):
        return [item.func, *item.args, *item.keywords.values()]
    if isinstance(item, types.MethodType):
        return [item.__self__, item.__func__]
    if isinstance(item, types.FunctionType):
        return [*_closure(item), *_globals(item), *(item.__defaults__ or ())]
    if isinstance(item, list | tuple | dict):
        values = list(item.values() if isinstance(item, dict) else item)
        return values if len(values) < 100 else []
    if isinstance(item, type | types.ModuleType) or not hasattr(item, "__dict__"):
        return []
    return [*vars(item).values(), getattr(type(item), "__call__", None)]  # noqa: B004


def _closure(function: types.FunctionType) -> list[Any]:
    items = []
    for cell in function.__closure__ or ():
        try:
            items.append(cell.cell_contents)
        except ValueError:  # the cell is still empty
            continue
    return items


def _globals(function: types.FunctionType) -> list[Any]:
    """Globals named in its code: modules, tensors, and functions and objects of its own file."""
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    file = function.__module__
    return [
        item
        for item in named
        if isinstance(item, nn.Module | Tensor)
        or (isinstance(item, types.FunctionType) and item.__module__ == file)
        or (hasattr(item, "__dict__") and type(item).__module__ == file)
    ]
