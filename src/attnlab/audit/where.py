"""Where a movement begins: the first module whose output moves although what it was given did not.

Every module is watched while the model runs twice. Modules finish from the inside out, so the first
that qualifies is the innermost; where none does, the movement arises between modules, in the
forward of the one that holds them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.noise import Noise, sizes
from attnlab.audit.situations import Situation
from attnlab.audit.subject import Subject
from attnlab.audit.traceless import same_draws, untouched

HINTS = (
    (("conv",), "a convolution that reaches to the right"),
    (("batchnorm",), "statistics over the batch"),
    (("instancenorm", "groupnorm"), "statistics over the whole sequence"),
    (("router", "gate", "moe", "expert"), "routing that depends on other tokens"),
    (("pool", "fft", "fourier"), "mixing over the whole sequence"),
    (("norm",), "a normalisation over the sequence"),
    (("attention", "attn", "mha"), "its attention"),
    (("embed", "wte"), "the embedding"),
)


Part = Callable[[Tensor], Tensor | None]  # what of a tensor is compared; None: nothing


@dataclass(frozen=True)
class Place:
    """The module's name, empty where none can be named, and a phrase for people."""

    module: str
    words: str


@dataclass(frozen=True)
class _Seen:
    name: str
    kind: str
    given: tuple[Tensor, ...]
    made: tuple[Tensor, ...]


def where(
    subject: Subject, situation: Situation, changed: Tensor, after: int, noise: Noise
) -> Place:
    """The module at which positions up to `after` first differ between the two texts."""
    shape = (situation.ids.shape[0], situation.length)
    return _between(
        subject,
        lambda: situation.logits(subject),
        lambda: situation.logits(subject, changed),
        lambda tensor: _early(tensor, shape, after),
        noise,
    )


def where_rows(subject: Subject, rows: Tensor, others: Tensor, noise: Noise) -> Place:
    """The module at which the first row first differs when the other rows are `others`."""
    other = torch.cat([rows[:1], others[: rows.shape[0] - 1]])
    return _between(
        subject,
        lambda: subject.logits(rows),
        lambda: subject.logits(other),
        lambda tensor: _first_row(tensor, (rows.shape[0], rows.shape[1])),
        noise,
    )


def where_length(subject: Subject, ids: Tensor, fewer: Tensor, noise: Noise) -> Place:
    """The module at which positions of the shorter text first differ from those of the longer."""
    n, kept = ids.shape[1], fewer.shape[1]

    def part(tensor: Tensor) -> Tensor | None:
        for axis, size in enumerate(tensor.shape):
            tensor = tensor.narrow(axis, 0, kept) if size == n else tensor
        return tensor if kept in tensor.shape else None

    return _between(
        subject, lambda: subject.logits(ids), lambda: subject.logits(fewer), part, noise
    )


def first_difference(subject: Subject, rows: Tensor, earlier: Tensor | None) -> Place:
    """The module that answers differently when asked the same twice, or after another question."""
    if subject.visible_module is None:
        return _nowhere(subject)
    if earlier is None:
        before, now = ([*_heard(subject, rows)] for _ in "ab")
        return _place(subject, before, now, lambda tensor: tensor, None)
    with untouched(subject.visible_module), same_draws(subject.visible_module):
        before = _heard(subject, rows)
    with untouched(subject.visible_module):
        with same_draws(subject.visible_module):
            subject.logits(earlier, fresh=False)
        with same_draws(subject.visible_module):
            now = _heard(subject, rows)
    return _place(subject, before, now, lambda tensor: tensor, None)


def _heard(subject: Subject, rows: Tensor) -> "list[_Seen]":
    """What every module gives, nothing being put back."""
    assert subject.visible_module is not None
    with watched(subject.visible_module) as seen:
        subject.logits(rows, fresh=False)
    return seen


def _nowhere(subject: Subject) -> Place:
    what = "its modules cannot be watched" if subject.module else "a function shows no modules"
    return Place("", f"{what}, so where cannot be said")


def _between(
    subject: Subject,
    one: Callable[[], Tensor],
    two: Callable[[], Tensor],
    part: Part,
    noise: Noise | None,
) -> Place:
    """Watch two runs; the first module whose output differs in `part` and whose input does not."""
    module = subject.visible_module
    if module is None:
        return _nowhere(subject)
    with watched(module) as before:
        one()
    with watched(module) as now:
        two()
    return _place(subject, before, now, part, noise)


def _place(
    subject: Subject, before: "list[_Seen]", now: "list[_Seen]", part: Part, noise: Noise | None
) -> Place:
    if not before:
        return _nowhere(subject)
    if [s.name for s in before] != [s.name for s in now]:
        return Place("", "the model takes another path through its modules")
    for first, second in zip(before, now, strict=True):
        if _differ(first.made, second.made, part, noise) and not _differ(
            first.given, second.given, part, noise
        ):
            return Place(first.name, _phrase(first, _reached(before, now, part, noise)))
    return Place("", "it arises outside of any module")


def _reached(before: list[_Seen], now: list[_Seen], part: Part, noise: Noise | None) -> str:
    """The first module whose input differs."""
    pairs = zip(before, now, strict=True)
    return next((a.name for a, b in pairs if _differ(a.given, b.given, part, noise)), "")


def _phrase(seen: _Seen, reached: str) -> str:
    if not seen.name:
        before = f", before `{reached}`" if reached else ""
        return f"it begins in the model's own forward, outside of its modules{before}"
    text = f"{seen.name.split('.')[-1]} {seen.kind}".lower()
    hint = next((words for keys, words in HINTS if any(key in text for key in keys)), "")
    return f"it begins in `{seen.name}` ({seen.kind})" + (f": {hint}" if hint else "")


@contextmanager
def watched(module: nn.Module) -> Iterator[list[_Seen]]:
    """What every module was given and made, in the order they finished."""
    seen: list[_Seen] = []

    def note(name: str) -> Any:
        def hook(inner: nn.Module, args: Any, kwargs: Any, made: Any) -> None:
            given = tuple(_tensors((args, kwargs)))
            seen.append(_Seen(name, type(inner).__name__, given, tuple(_tensors(made))))

        return hook

    hooks = [
        inner.register_forward_hook(note(name), with_kwargs=True)
        for name, inner in module.named_modules()
        if not isinstance(inner, torch.jit.ScriptModule)  # compiled: no hooks
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
    """Whether the part that is asked about differs by more than the model's noise."""
    a_part, b_part = part(a), part(b)
    if a_part is None or b_part is None:
        return False  # nothing of it can be assigned: a scalar, a table, a pooled vector
    if a_part.shape != b_part.shape:
        return True
    if noise is None or not a.is_floating_point():
        return not torch.equal(a_part, b_part)
    scale = float(sizes(a_part).abs().nan_to_num().max()) or 1.0
    limit = noise.threshold / (noise.scale or 1.0) * scale
    gap = (sizes(a_part) - sizes(b_part)).abs()
    return bool((gap.nan_to_num(posinf=torch.inf) > limit).any())


def _early(tensor: Tensor, shape: tuple[int, int], cut: int) -> Tensor | None:
    """What belongs to positions up to `cut`."""
    axis = _time_axis(tensor, shape)
    if axis is None:
        return None
    if tensor.shape[axis] == shape[0] * shape[1] != shape[1]:
        tensor, axis = tensor.unflatten(axis, shape), axis + 1
    return tensor.narrow(axis, 0, cut + 1)


def _first_row(tensor: Tensor, shape: tuple[int, int]) -> Tensor | None:
    """What belongs to the first row."""
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
