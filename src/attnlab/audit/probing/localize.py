"""Where a difference begins: the first module whose output differs although its input does not.

The calls of every module are recorded while the model runs twice. Modules finish from the inside
out, so the first that qualifies is the innermost; where none does, the difference arises between
modules, in the forward of the module that contains them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.probing.isolation import fixed_random_state, restore_state
from attnlab.audit.probing.noise import Noise, finite_values
from attnlab.audit.probing.situations import Situation
from attnlab.audit.probing.subject import Subject

HINTS = (
    (("conv",), "a convolution that looks ahead"),
    (("batchnorm",), "statistics over the batch"),
    (("instancenorm", "groupnorm"), "statistics over the whole sequence"),
    (("router", "gate", "moe", "expert"), "routing that depends on other tokens"),
    (("pool", "fft", "fourier"), "mixing over the whole sequence"),
    (("norm",), "a normalisation over the sequence"),
    (("attention", "attn", "mha"), "its attention"),
    (("embed", "wte"), "the embedding"),
)


Part = Callable[[Tensor], Tensor | None]  # the part of a tensor that is compared; None: nothing


@dataclass(frozen=True)
class Location:
    """The module's name, empty where none can be named, and a phrase for people."""

    module: str
    description: str


@dataclass(frozen=True)
class _ModuleCall:
    name: str
    kind: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def localize_positions(
    subject: Subject, situation: Situation, changed: Tensor, after: int, noise: Noise
) -> Location:
    """Where positions up to `after` first differ between the two texts."""
    shape = (situation.ids.shape[0], situation.length)
    return _compare_runs(
        subject,
        lambda: situation.logits(subject),
        lambda: situation.logits(subject, changed),
        lambda tensor: _positions_up_to(tensor, shape, after),
        noise,
    )


def localize_rows(subject: Subject, rows: Tensor, others: Tensor, noise: Noise) -> Location:
    """Where the first row first differs when the other rows are `others`."""
    other = torch.cat([rows[:1], others[: rows.shape[0] - 1]])
    return _compare_runs(
        subject,
        lambda: subject.logits(rows),
        lambda: subject.logits(other),
        lambda tensor: _first_row(tensor, (rows.shape[0], rows.shape[1])),
        noise,
    )


def localize_truncation(subject: Subject, ids: Tensor, fewer: Tensor, noise: Noise) -> Location:
    """Where positions of the truncated text first differ from those of the whole text."""
    n, kept = ids.shape[1], fewer.shape[1]

    def part(tensor: Tensor) -> Tensor | None:
        for axis, size in enumerate(tensor.shape):
            tensor = tensor.narrow(axis, 0, kept) if size == n else tensor
        return tensor if kept in tensor.shape else None

    return _compare_runs(
        subject, lambda: subject.logits(ids), lambda: subject.logits(fewer), part, noise
    )


def localize_repeat(subject: Subject, rows: Tensor, earlier: Tensor | None) -> Location:
    """Where two calls with the same rows first differ, the second after `earlier` if given."""
    if subject.visible_module is None:
        return _unknown_location(subject)
    if earlier is None:
        before, now = ([*_record(subject, rows)] for _ in "ab")
        return _first_difference(subject, before, now, lambda tensor: tensor, None)
    with restore_state(subject.visible_module), fixed_random_state(subject.visible_module):
        before = _record(subject, rows)
    with restore_state(subject.visible_module):
        with fixed_random_state(subject.visible_module):
            subject.logits(earlier, fresh=False)
        with fixed_random_state(subject.visible_module):
            now = _record(subject, rows)
    return _first_difference(subject, before, now, lambda tensor: tensor, None)


def _record(subject: Subject, rows: Tensor) -> "list[_ModuleCall]":
    """The calls of all modules, without restoring state."""
    assert subject.visible_module is not None
    with record_modules(subject.visible_module) as seen:
        subject.logits(rows, fresh=False)
    return seen


def _unknown_location(subject: Subject) -> Location:
    what = "its modules cannot be recorded" if subject.module else "a function shows no modules"
    return Location("", f"{what}, so the place is not known")


def _compare_runs(
    subject: Subject,
    one: Callable[[], Tensor],
    two: Callable[[], Tensor],
    part: Part,
    noise: Noise | None,
) -> Location:
    """Record two runs and compare `part` of every module's inputs and outputs."""
    module = subject.visible_module
    if module is None:
        return _unknown_location(subject)
    with record_modules(module) as before:
        one()
    with record_modules(module) as now:
        two()
    return _first_difference(subject, before, now, part, noise)


def _first_difference(
    subject: Subject,
    before: "list[_ModuleCall]",
    now: "list[_ModuleCall]",
    part: Part,
    noise: Noise | None,
) -> Location:
    if not before:
        return _unknown_location(subject)
    if [s.name for s in before] != [s.name for s in now]:
        return Location("", "the model calls other modules")
    for first, second in zip(before, now, strict=True):
        if _differ(first.outputs, second.outputs, part, noise) and not _differ(
            first.inputs, second.inputs, part, noise
        ):
            return Location(first.name, _phrase(first, _first_reached(before, now, part, noise)))
    return Location("", "it begins outside of any module")


def _first_reached(
    before: list[_ModuleCall], now: list[_ModuleCall], part: Part, noise: Noise | None
) -> str:
    """The first module whose input differs."""
    pairs = zip(before, now, strict=True)
    return next((a.name for a, b in pairs if _differ(a.inputs, b.inputs, part, noise)), "")


def _phrase(seen: _ModuleCall, reached: str) -> str:
    if not seen.name:
        before = f", before `{reached}`" if reached else ""
        return f"it begins in the model's own forward, outside of its modules{before}"
    text = f"{seen.name.split('.')[-1]} {seen.kind}".lower()
    hint = next((words for keys, words in HINTS if any(key in text for key in keys)), "")
    return f"it begins in `{seen.name}` ({seen.kind})" + (f": {hint}" if hint else "")


@contextmanager
def record_modules(module: nn.Module) -> Iterator[list[_ModuleCall]]:
    """Inputs and outputs of every module, in the order the modules finish."""
    seen: list[_ModuleCall] = []

    def make_hook(name: str) -> Any:
        def hook(inner: nn.Module, args: Any, kwargs: Any, outputs: Any) -> None:
            inputs = tuple(_tensors((args, kwargs)))
            seen.append(_ModuleCall(name, type(inner).__name__, inputs, tuple(_tensors(outputs))))

        return hook

    hooks = [
        inner.register_forward_hook(make_hook(name), with_kwargs=True)
        for name, inner in module.named_modules()
        if not isinstance(inner, torch.jit.ScriptModule)  # compiled modules take no hooks
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _tensors(item: Any, depth: int = 3) -> Iterator[Tensor]:
    """The tensors in nested tuples and mappings, copied: a module may write over its input."""
    if isinstance(item, Tensor):
        yield item.detach().clone()
    elif depth and isinstance(item, tuple | list):
        for part in item:
            yield from _tensors(part, depth - 1)
    elif depth and isinstance(item, Mapping):
        for part in item.values():
            yield from _tensors(part, depth - 1)


def _differ(
    before: tuple[Tensor, ...],
    now: tuple[Tensor, ...],
    part: Part,
    noise: Noise | None,
) -> bool:
    if len(before) != len(now):
        return True
    return any(_moves(a, b, part, noise) for a, b in zip(before, now, strict=True))


def _moves(a: Tensor, b: Tensor, part: Part, noise: Noise | None) -> bool:
    """Whether the compared part differs by more than the model's noise."""
    a_part, b_part = part(a), part(b)
    if a_part is None or b_part is None:
        return False  # it has no positions: a scalar, a table, a pooled vector
    if a_part.shape != b_part.shape:
        return True
    if noise is None or not a.is_floating_point():
        return not torch.equal(a_part, b_part)
    scale = float(finite_values(a_part).abs().nan_to_num().max()) or 1.0
    limit = noise.threshold / (noise.scale or 1.0) * scale
    gap = (finite_values(a_part) - finite_values(b_part)).abs()
    return bool((gap.nan_to_num(posinf=torch.inf) > limit).any())


def _positions_up_to(tensor: Tensor, shape: tuple[int, int], cut: int) -> Tensor | None:
    """The part of a tensor at positions up to `cut`."""
    axis = _time_axis(tensor, shape)
    if axis is None:
        return None
    if tensor.shape[axis] == shape[0] * shape[1] != shape[1]:
        tensor, axis = tensor.unflatten(axis, shape), axis + 1
    return tensor.narrow(axis, 0, cut + 1)


def _first_row(tensor: Tensor, shape: tuple[int, int]) -> Tensor | None:
    """The part of a tensor in the first row."""
    if not tensor.ndim or tensor.shape[0] not in (shape[0], shape[0] * shape[1]):
        return None
    return tensor[: tensor.shape[0] // shape[0]]


def _time_axis(tensor: Tensor, shape: tuple[int, int]) -> int | None:
    """The axis as long as the text; the length is a prime no width is likely to share."""
    batch, length = shape
    for axis in (1, 2, 0, 3):
        if axis < tensor.ndim and tensor.shape[axis] == length:
            return axis
    return 0 if tensor.ndim and tensor.shape[0] == batch * length else None
