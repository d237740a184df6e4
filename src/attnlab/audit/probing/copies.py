"""Copies of a model in which more is seen: in float64, and without weights that are all zero.

In float64 rounding is 1e-15 and a leak is as large as before. A small model is copied in float64; a
large one that is stored in 16 bits, in float32. Many a model computes its norms in float32, or its
blocks in bfloat16, whatever its weights are: inside `float64_casts` every cast to a coarser float
is a cast to float64. A function is followed into the modules it uses, whose weights are float64
while it runs. A copy that raises, gives NaN where the model gives none, or answers differently, is
not used. Weights that are all zero, as some start their training, hide what they are multiplied
with: an audit can query a copy in which they hold small random values.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attnlab.audit.probing.noise import LIMITS, coarsest_dtype, finite_values, largest_movement
from attnlab.audit.probing.subject import Subject

TOLERANCE = 30  # times what rounding should move: a copy that differs by more is another model
COARSE = (torch.float32, torch.float16, torch.bfloat16)
CASTS = (Tensor.float, Tensor.half, Tensor.bfloat16)
BIT_VIEWS = (Tensor.view,)  # the same bits read as another type: no cast


def finest_copy(subject: Subject) -> Subject | None:
    """None where no finer copy can be made; the subject itself where it is float64 already."""
    if subject.device.type != "cpu" or subject.visible_module is None:
        return None
    if subject.module is None:
        if subject.large:
            return None
        return _verify(subject, lambda: _copy_function(subject), compare=True)
    wanted = torch.float32 if subject.large else torch.float64
    if torch.finfo(subject.dtype).eps < torch.finfo(wanted).eps or (
        subject.large and subject.dtype == wanted
    ):
        return None
    made = None
    if not subject.large:
        made = _verify(subject, lambda: _copy(subject, wanted, casts=True), compare=True)
    if made is None and subject.dtype != wanted:
        made = _verify(subject, lambda: _copy(subject, wanted, casts=False), compare=False)
    return made or (subject if subject.dtype == wanted else None)


def float32_copy(subject: Subject) -> Subject:
    """A float32 copy of a model in 16 bits; any other as it is, and one that cannot be copied."""
    if subject.module is None or subject.rewrap is None or torch.finfo(subject.dtype).bits >= 32:
        return subject
    try:
        return replace(subject.rewrap(copy.deepcopy(subject.module).float()), name=subject.name)
    except Exception:  # anyone's code
        return subject


# ------------------------------------------------------------------------------ casts to float64


class _Float64Casts(TorchFunctionMode):
    """Casts to a coarser float become casts to float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in CASTS:
            return args[0].double()
        if func in BIT_VIEWS or not (kwargs or any(type(a) is torch.dtype for a in args)):
            return func(*args, **(kwargs or {}))
        given = {key: _float64_dtype(item) for key, item in (kwargs or {}).items()}
        return func(*(_float64_dtype(item) for item in args), **given)


def _float64_dtype(item: Any) -> Any:
    return torch.float64 if isinstance(item, torch.dtype) and item in COARSE else item


@contextmanager
def float64_casts() -> Iterator[None]:
    """Every floating type asked for by name is float64, and constants are made in it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Float64Casts():
            yield
    finally:
        torch.set_default_dtype(before)


# ------------------------------------------------------------------------------------ the copies


def _copy(subject: Subject, wanted: torch.dtype, *, casts: bool) -> Subject:
    assert subject.module is not None and subject.rewrap is not None
    with float64_casts() if casts else nullcontext():
        made = subject.rewrap(copy.deepcopy(subject.module).to(wanted))
    made = replace(made, name=subject.name)
    return _ignore_casts(made) if casts else made


def _ignore_casts(subject: Subject) -> Subject:
    """Every call of the model runs with casts to float64; so does what it is rewrapped as."""
    calls: dict[str, Any] = {
        call: float64_casts()(getattr(subject, call))
        for call in ("forward", "labelled", "cache")
        if getattr(subject, call) is not None
    }
    rewrap = subject.rewrap
    if rewrap is not None:
        calls["rewrap"] = lambda module: _ignore_casts(float64_casts()(rewrap)(module))
    return replace(subject, **calls)


def _copy_function(subject: Subject) -> Subject:
    """The function itself; the weights it uses are float64 while it runs."""
    inner = subject.inner
    assert inner is not None
    float64: dict[Tensor, Tensor] = {}

    def within(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return _float64_weights(inner, float64)(float64_casts()(call))

    labelled = None if subject.labelled is None else within(subject.labelled)
    return replace(subject, forward=within(subject.forward), labelled=labelled, memo={})


@contextmanager
def _float64_weights(module: nn.Module, float64: dict[Tensor, Tensor]) -> Iterator[None]:
    """Exchange the weights of a module for their float64 copies, and put them back."""
    weights = [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()]
    before = [t.data for t in weights]
    try:
        for item in weights:
            item.data = float64.setdefault(item, item.data.double())
        yield
    finally:
        for item, data in zip(weights, before, strict=True):
            item.data = data


# ------------------------------------------------------------------------------- is it the same?


def _verify(subject: Subject, make: Callable[[], Subject], *, compare: bool) -> Subject | None:
    """What `make` gives, if it runs without NaN and, with `compare`, answers as the model does."""
    try:
        made = make()
        return made if _answers_agree(subject, made, compare=compare) else None
    except Exception:  # anyone's code: a dtype written into it, a part that cannot be copied
        return None


def _answers_agree(subject: Subject, made: Subject, *, compare: bool) -> bool:
    """On a short text, and beside padding, where a mask written for float32 may give NaN."""
    n = subject.fitting(7)
    ids = torch.arange(n)[None] % subject.vocabulary
    real = torch.arange(n)[None] >= min(2, n - 1)
    limit = TOLERANCE * LIMITS[coarsest_dtype(subject, ids)]
    for mask in [None, real, real.flip(1)] if subject.takes_mask else [None]:
        keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        if not subject.per_position:
            keep = torch.ones(1, 1, dtype=torch.bool)
        copied, original = made.logits(ids, mask)[keep], subject.logits(ids, mask)[keep]
        if bool((copied.isnan() & ~original.isnan()).any()):
            return False
        scale = float(finite_values(original).abs().nan_to_num().max())
        copied, original = copied.nan_to_num(), original.nan_to_num()
        if compare and largest_movement(original, copied) > limit * scale:
            return False
    return True


# ---------------------------------------------------------------------------- weights of zero


def zero_weights(subject: Subject) -> list[str]:
    """Names of weights that hold nothing but zeros; biases often do and hide nothing."""
    named = [] if subject.module is None else subject.module.named_parameters()
    return [
        name
        for name, p in named
        if p.is_floating_point() and p.numel() and "bias" not in name.lower() and not bool(p.any())
    ]


def fill_zero_weights(subject: Subject) -> Subject | None:
    """A copy with small random values in its all-zero weights, made once; None: there are none."""
    return subject.remember("filled", lambda: _filled_copy(subject))


def _filled_copy(subject: Subject) -> Subject | None:
    zero = zero_weights(subject)
    if subject.module is None or subject.rewrap is None or not zero:
        return None
    try:
        module = copy.deepcopy(subject.module)
        generator = torch.Generator().manual_seed(11)
        with torch.no_grad():
            for name in zero:
                weight = module.get_parameter(name)
                weight.copy_(0.1 * torch.randn(weight.shape, generator=generator))
        return replace(subject.rewrap(module), name=subject.name, special=subject.special)
    except Exception:  # anyone's code
        return None
