"""Everything in float64: a model that casts inside is followed without its casts.

Many a model computes its norms in float32, or its blocks in bfloat16, whatever its weights are; a
float64 copy of it then rounds as coarsely as the model itself. While `wide` is on, every floating
type that is asked for by name is float64, and constants are made in it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

P = ParamSpec("P")
R = TypeVar("R")
COARSE = (torch.float32, torch.float16, torch.bfloat16)
CASTS = (Tensor.float, Tensor.half, Tensor.bfloat16)
BITS = (Tensor.view,)  # the same bits read as another type: no cast


class _Wide(TorchFunctionMode):
    """Casts to a coarser float become casts to float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func in CASTS:
            return args[0].double()
        if func not in BITS:
            args = tuple(_fine(item) for item in args)
            given = {key: _fine(item) for key, item in given.items()}
        return func(*args, **given)


def _fine(item: Any) -> Any:
    return torch.float64 if isinstance(item, torch.dtype) and item in COARSE else item


@contextmanager
def wide() -> Iterator[None]:
    """Casts and constants are float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Wide():
            yield
    finally:
        torch.set_default_dtype(before)


def widened(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, its casts ignored."""

    @wraps(function)
    def wider(*args: P.args, **kwargs: P.kwargs) -> R:
        with wide():
            return function(*args, **kwargs)

    return wider
