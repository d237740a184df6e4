"""The list of shared checks, and what they have in common."""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnlab.core.seeds import Seed
from attnlab.parts.attention import Attention
from tests.parts.cases import Case, run

_LIST: dict[str, Callable[[Case], None]] = {}


def every_check() -> dict[str, Callable[[Case], None]]:
    """All shared checks by name; importing their files fills the list."""
    for name in ("checks", "keeping"):
        importlib.import_module(f"tests.parts.{name}")
    return _LIST


def check(function: Callable[[Case], None]) -> Callable[[Case], None]:
    """List a check under its name."""
    _LIST[function.__name__.replace("_", "-")] = function
    return function


def same(a: Any, b: Any, what: str = "") -> None:
    """Equal up to the rounding of fp64."""
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=lambda m: f"{what}: {m}")


def gradients(loss: Tensor, attention: Attention, x: Tensor) -> dict[str, Tensor]:
    """d loss for x and every parameter; no gradient is 0."""
    named = {"x": x, **dict(attention.named_parameters())}
    named |= {f"position.{name}": p for name, p in attention.position.named_parameters()}
    slopes = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
    pairs = zip(named.items(), slopes, strict=True)
    return {name: torch.zeros_like(p) if g is None else g for (name, p), g in pairs}


def probe(out: Tensor, visible: Tensor | None = None) -> Tensor:
    """One number that every output moves."""
    weight = torch.randn(out.shape, generator=Seed(17).torch_generator(), dtype=out.dtype)
    weight = weight if visible is None else weight * visible[..., None]
    return (out * weight).sum()


def outputs(attention: Attention, x: Tensor) -> tuple[Tensor, Tensor]:
    """By the fast way and by the steps."""
    forward, steps = run(attention, x)
    return forward, steps.out
