"""Calls of a model are isolated: each leaves the model and all random generators as they were.

Restored: training modes, buffers, plain attributes of every module (a cache kept between calls, a
counter), its own generators, and the random states of torch, numpy and Python. Every call draws the
same random numbers. In training mode dropout is off: one whose shape follows the routing of tokens
would look like a leak.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnlab.audit.probing.attention_scores import fused_arguments

FIXED_SEED = 20_261_115  # of every random generator during a call
MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))  # of every module; others are its author's
GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState)
SMALL = 1 << 16  # elements; larger tensors among plain attributes are tables, not state
DROPOUTS = (
    functional.dropout,
    torch.dropout,
    functional.dropout1d,
    functional.alpha_dropout,
    functional.feature_alpha_dropout,
    torch.alpha_dropout,
)


@contextmanager
def restore_state(module: nn.Module | None) -> Iterator[None]:
    """Restore training modes, buffers and plain attributes of all modules afterwards."""
    undo = [] if module is None else [_undo_module(part) for part in module.modules()]
    try:
        yield
    finally:
        for restore in undo:
            restore()


def _undo_module(module: nn.Module) -> Callable[[], None]:
    """Remember mode, buffers and plain attributes of one module; what it returns restores them."""
    training, attributes = module.training, vars(module)
    own = module.named_buffers(recurse=False, remove_duplicate=False)
    buffers = {name: (b, b.detach().clone()) for name, b in own}
    known = attributes.keys() - MODULE_ATTRIBUTES
    plain = {name: (attributes[name], _undo_inside(attributes[name])) for name in known}

    def restore() -> None:
        if not isinstance(module, torch.jit.ScriptModule):
            for name in attributes.keys() - MODULE_ATTRIBUTES - known:
                del attributes[name]
            for name, (value, undo) in plain.items():
                undo()
                attributes[name] = value
            for name, (buffer, _) in buffers.items():
                attributes["_buffers"][name] = buffer
        for buffer, before in buffers.values():
            buffer.detach().copy_(before)
        if module.training != training:
            module.training = training

    return restore


def _undo_inside(value: Any) -> Callable[[], Any]:
    """Remember what is inside `value`; what it returns undoes changes there."""
    if isinstance(value, torch.Generator):
        return partial(value.set_state, value.get_state())
    if isinstance(value, np.random.Generator | np.random.RandomState):
        new_api = isinstance(value, np.random.Generator)
        bits = getattr(value, "bit_generator" if new_api else "_bit_generator")
        return partial(setattr, bits, "state", bits.state)
    if type(value) is list:
        return partial(value.__setitem__, slice(None), value.copy())
    if type(value) in (dict, set):
        inside = value.copy()
        return lambda: (value.clear(), value.update(inside))
    if isinstance(value, Tensor) and value.numel() <= SMALL and not value.requires_grad:
        return partial(value.copy_, value.clone())
    return lambda: None


@contextmanager
def fixed_random_state(module: nn.Module | None = None) -> Iterator[None]:
    """Seed torch, numpy and Python; restore them and the module's own generators afterwards."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    parts = () if module is None else module.modules()
    generators = (v for part in parts for v in vars(part).values() if isinstance(v, GENERATORS))
    undo = [_undo_inside(generator) for generator in generators]
    # anyone's model draws from the global generators
    torch.default_generator.manual_seed(FIXED_SEED)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(FIXED_SEED)
    random.seed(FIXED_SEED)
    np.random.seed(FIXED_SEED)  # noqa: TID251
    try:
        yield
    finally:
        for restore in undo:
            restore()
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def random_state() -> tuple[bytes, ...]:
    """State of the global generators; it changes if any random number is drawn."""
    numpy = np.random.get_state()
    return (
        torch.get_rng_state().numpy().tobytes(),
        np.asarray(numpy[1]).tobytes() + repr(numpy[2:]).encode(),  # pyright: ignore[reportArgumentType]
        repr(random.getstate()).encode(),
    )


class NoDropout(TorchFunctionMode):
    """Every dropout returns its input."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = dict(kwargs or {})
        if func in DROPOUTS:
            return args[0] if args else given["input"]
        if func is functional.scaled_dot_product_attention:
            return func(**{**fused_arguments(args, given), "dropout_p": 0.0})
        return func(*args, **given)


@contextmanager
def set_mode(module: nn.Module | None, *, training: bool) -> Iterator[None]:
    """Put the module into this mode, and every part of it back into its own afterwards."""
    parts = () if module is None else module.modules()
    others = [part for part in parts if part.training != training]
    if module is not None and others:
        module.train(training)
    try:
        yield
    finally:
        for part in others:
            part.training = not training
