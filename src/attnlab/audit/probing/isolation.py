"""Calls of a model are isolated: each leaves the model and all random generators as they were.

Restored: training modes, buffers, plain attributes of every module (a cache kept between calls, a
counter), its own generators, and the random states of torch, numpy and Python. Every call draws the
same random numbers. In training mode dropout is off: one whose shape follows the routing of tokens
would look like a leak.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnlab.audit.probing.attention_scores import fused_arguments

FIXED_SEED = 20_261_115  # of every random generator during a call
MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))  # of every module; others are its author's
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
    kept = [] if module is None else [_ModuleState(part) for part in module.modules()]
    try:
        yield
    finally:
        for part in kept:
            part.restore()


class _ModuleState:
    """Training mode, buffers and plain attributes of one module, to be restored."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.training = module.training
        buffers = module.named_buffers(recurse=False, remove_duplicate=False)
        self.buffers = {name: (b, b.detach().clone()) for name, b in buffers}
        own = vars(module).keys() - MODULE_ATTRIBUTES
        self.plain = {name: (vars(module)[name], _snapshot(vars(module)[name])) for name in own}

    def restore(self) -> None:
        attributes = vars(self.module)
        if not isinstance(self.module, torch.jit.ScriptModule):
            for name in attributes.keys() - MODULE_ATTRIBUTES - self.plain.keys():
                del attributes[name]
            for name, (value, copy) in self.plain.items():
                attributes[name] = _restore(value, copy)
            for name, (buffer, _) in self.buffers.items():
                attributes["_buffers"][name] = buffer
        for buffer, before in self.buffers.values():
            buffer.detach().copy_(before)
        if self.module.training != self.training:
            self.module.training = self.training


def _snapshot(value: Any) -> Any:
    """What is needed to undo a change made inside `value`; None: nothing can be changed inside."""
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return _bits(value).state
    if isinstance(value, list | dict | set):
        return type(value)(value) if type(value) in (list, dict, set) else None
    if isinstance(value, Tensor) and value.numel() <= SMALL and not value.requires_grad:
        return value.clone()
    return None


def _restore(value: Any, copy: Any) -> Any:
    if copy is None:
        return value
    if isinstance(value, torch.Generator):
        value.set_state(copy)
    elif isinstance(value, np.random.Generator | np.random.RandomState):
        _bits(value).state = copy
    elif isinstance(value, Tensor):
        value.copy_(copy)
    elif isinstance(value, list):
        value[:] = copy
    elif isinstance(value, dict | set):
        value.clear()
        value.update(copy)
    return value


def _bits(generator: Any) -> Any:
    """The object that holds the state of a numpy generator."""
    is_new_api = isinstance(generator, np.random.Generator)
    return generator.bit_generator if is_new_api else generator._bit_generator


GENERATORS = (torch.Generator, np.random.Generator, np.random.RandomState)


@contextmanager
def fixed_random_state(module: nn.Module | None = None) -> Iterator[None]:
    """Seed torch, numpy and Python; restore them and the module's own generators afterwards."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    parts = () if module is None else module.modules()
    generators = [v for part in parts for v in vars(part).values() if isinstance(v, GENERATORS)]
    before = [_snapshot(generator) for generator in generators]
    # anyone's model draws from the global generators
    torch.default_generator.manual_seed(FIXED_SEED)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(FIXED_SEED)
    random.seed(FIXED_SEED)
    np.random.seed(FIXED_SEED)  # noqa: TID251
    try:
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            _restore(generator, state)
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
def isolate(
    module: nn.Module | None, inner: nn.Module | None, *, training: bool, fresh: bool
) -> Iterator[None]:
    """Set evaluation or training mode; `fresh`: fixed random numbers, and state is restored.

    `inner`: modules that a function uses, which stay in the mode they have.
    """
    with ExitStack() as stack:
        if fresh:
            stack.enter_context(restore_state(inner if module is None else module))
            stack.enter_context(fixed_random_state())
        stack.enter_context(set_mode(module, training=training))
        if training:
            stack.enter_context(NoDropout())
        yield


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
