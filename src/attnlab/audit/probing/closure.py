"""What a function computes with: modules and tensors in its closure, object, arguments, globals."""

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
    """Modules and tensors that belong to no module, to be treated as one."""

    def __init__(self, modules: list[nn.Module], tensors: list[Tensor]) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            self.add_module(f"module_{i}", module)
        for i, tensor in enumerate(tensors):
            self.register_buffer(f"tensor_{i}", tensor)


def captured_modules(function: Any) -> nn.Module | None:
    """One module, a holder of several, None where none is found."""
    found = list({id(item): item for item in _found(function, DEPTH, set())}.values())
    modules = [item for item in found if isinstance(item, nn.Module)]
    tensors = [item for item in found if isinstance(item, Tensor)]
    if not found:
        return None
    return modules[0] if len(modules) == 1 and not tensors else Collection(modules, tensors)


def device_of(module: nn.Module | None) -> torch.device | None:
    """Where its weights are; None where it has none."""
    weights = () if module is None else chain(module.parameters(), module.buffers())
    return next((weight.device for weight in weights), None)


@contextmanager
def on_cpu(module: nn.Module | None) -> Iterator[None]:
    """There an id that is out of range is an error; on a GPU it is the end of the process."""
    home = device_of(module)
    if module is None or home is None or home.type == "cpu":
        yield
        return
    module.to("cpu")
    try:
        yield
    finally:
        module.to(home)


def _found(item: Any, depth: int, seen: set[int]) -> Iterator[nn.Module | Tensor]:
    if isinstance(item, nn.Module) or (isinstance(item, Tensor) and item.is_floating_point()):
        yield item
    elif depth and id(item) not in seen:
        seen.add(id(item))
        for part in _parts(item):
            yield from _found(part, depth - 1, seen)


def _parts(item: Any) -> list[Any]:
    """What a thing holds that it may call."""
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
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    return found


def _globals(function: types.FunctionType) -> list[Any]:
    """Modules and functions of its own file that its code names."""
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    own = function.__module__
    return [
        item
        for item in named
        if isinstance(item, nn.Module | Tensor)
        or (isinstance(item, types.FunctionType) and item.__module__ == own)
        or (hasattr(item, "__dict__") and type(item).__module__ == own)
    ]
