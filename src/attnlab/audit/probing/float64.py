"""The same model in finer numbers: a float64 copy, its inner casts ignored where that works.

A small model is copied in float64; a large one that is stored in 16 bits in float32. A function is
followed into the modules it uses, whose weights are widened while it runs. A copy that breaks,
gives NaN where the model gives none, or says something else than the model does, is not used.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.probing.noise import LIMITS, coarsest_dtype, finite_values, movement
from attnlab.audit.probing.subject import Subject
from attnlab.audit.probing.widen import wide, widened

MUCH = 30  # times what rounding should move: a copy that differs by more is another model


def finest_copy(subject: Subject) -> Subject | None:
    """None where there is no finer copy to be had; the subject itself where it is one already."""
    if subject.device.type != "cpu" or (subject.module is None and subject.inner is None):
        return None
    if subject.module is None:
        return None if subject.large else _sound(subject, lambda: _function(subject), strict=True)
    wanted = torch.float32 if subject.large else torch.float64
    if torch.finfo(subject.dtype).eps < torch.finfo(wanted).eps or (
        subject.large and subject.dtype == wanted
    ):
        return None
    made = None
    if not subject.large:
        made = _sound(subject, lambda: _copied(subject, wanted, wider=True), strict=True)
    if made is None and subject.dtype != wanted:
        made = _sound(subject, lambda: _copied(subject, wanted, wider=False), strict=False)
    return made or (subject if subject.dtype == wanted else None)


def float32_copy(subject: Subject) -> Subject:
    """A float32 copy of a model in 16 bits; any other as it is, and one that cannot be copied."""
    if subject.module is None or subject.rewrap is None or torch.finfo(subject.dtype).bits >= 32:
        return subject
    try:
        return replace(subject.rewrap(copy.deepcopy(subject.module).float()), name=subject.name)
    except Exception:  # anyone's code
        return subject


def fill_zero_weights(subject: Subject) -> Subject | None:
    """A copy whose all-zero weights hold small numbers: what is multiplied by 0 cannot be seen."""
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


def zero_weights(subject: Subject) -> list[str]:
    """Weights that hold nothing but zeros, biases left out: those are often so and hide nothing."""
    named = [] if subject.module is None else subject.module.named_parameters()
    return [
        name
        for name, p in named
        if p.is_floating_point() and p.numel() and "bias" not in name.lower() and not bool(p.any())
    ]


def _sound(subject: Subject, way: Callable[[], Subject], *, strict: bool) -> Subject | None:
    """What `way` makes, if it runs and is the same model; `strict`: its answers are compared."""
    try:
        made = way()
        return made if _says_the_same(subject, made, strict=strict) else None
    except Exception:  # anyone's code: a dtype written into it, a part that cannot be copied
        return None


def _copied(subject: Subject, wanted: torch.dtype, *, wider: bool) -> Subject:
    assert subject.module is not None and subject.rewrap is not None
    with wide() if wider else nullcontext():
        made = subject.rewrap(copy.deepcopy(subject.module).to(wanted))
    made = replace(made, name=subject.name)
    return _widened(made) if wider else made


def _widened(made: Subject) -> Subject:
    """Every way into the model without its casts."""
    ways: dict[str, Any] = {
        way: widened(getattr(made, way))
        for way in ("forward", "labelled", "cache")
        if getattr(made, way) is not None
    }
    again = made.rewrap
    return replace(made, **ways, rewrap=None if again is None else _rewrapped_wide(again))


def _rewrapped_wide(again: Callable[[nn.Module], Subject]) -> Callable[[nn.Module], Subject]:
    return lambda module: _widened(widened(again)(module))


def _function(subject: Subject) -> Subject:
    """The function itself; the weights it reaches are float64 while it runs."""
    assert subject.inner is not None
    fine: dict[Tensor, Tensor] = {}

    def within(way: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def run(*args: Any) -> Tensor:
            assert subject.inner is not None
            with _widened_in_place(subject.inner, fine), wide():
                return way(*args)

        return run

    labelled = None if subject.labelled is None else within(subject.labelled)
    return replace(subject, forward=within(subject.forward), labelled=labelled, memo={})


@contextmanager
def _widened_in_place(module: nn.Module, fine: dict[Tensor, Tensor]) -> Iterator[None]:
    own = [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()]
    before = [t.data for t in own]
    try:
        for item in own:
            item.data = fine.setdefault(item, item.data.double())
        yield
    finally:
        for item, data in zip(own, before, strict=True):
            item.data = data


def _says_the_same(subject: Subject, made: Subject, *, strict: bool) -> bool:
    """In a short text, and beside pads, where a mask written for float32 may give NaN."""
    n = subject.fitting(7)
    ids = torch.arange(n)[None] % subject.vocabulary
    real = torch.arange(n)[None] >= min(2, n - 1)
    limit = MUCH * LIMITS[coarsest_dtype(subject, ids)]
    for visible in [None, real, real.flip(1)] if subject.takes_mask else [None]:
        keep = torch.ones_like(ids, dtype=torch.bool) if visible is None else visible
        if not subject.per_position:
            keep = torch.ones(1, 1, dtype=torch.bool)
        there, here = made.logits(ids, visible)[keep], subject.logits(ids, visible)[keep]
        if bool((there.isnan() & ~here.isnan()).any()):
            return False
        scale = float(finite_values(here).abs().nan_to_num().max())
        if strict and float(movement(here.nan_to_num(), there.nan_to_num()).max()) > limit * scale:
            return False
    return True
