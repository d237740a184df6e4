"""Where a difference begins, and how far ahead a leak looks.

It begins in the first module whose output differs although its input does not. The calls of every
module are recorded while the model runs twice. Modules finish from the inside out, so the first
that qualifies is the innermost; where none does, the difference arises between modules, in the
forward of the module that contains them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.probing.isolation import fixed_random_state, restore_state
from attnlab.audit.probing.leaks import Leak
from attnlab.audit.probing.noise import Noise, finite_values, movement
from attnlab.audit.probing.probe import Situation
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
NEAR = 24  # later tokens that are tried one at a time
Part = Callable[[Tensor], Tensor | None]  # the part of a tensor that is compared; None: nothing


@dataclass(frozen=True)
class Location:
    """The module's name, empty where none can be named, and a phrase for people."""

    module: str
    description: str


@dataclass(frozen=True)
class ModuleCall:
    """What went into a module and came out of it."""

    name: str
    kind: str
    inputs: list[Tensor]
    outputs: list[Tensor]


Calls = list[ModuleCall]  # in the order in which they finish


def localize_positions(
    subject: Subject, situation: Situation, changed: Tensor, after: int, noise: Noise
) -> Location:
    """Where positions up to `after` first differ between the two texts."""
    batch, length = situation.ids.shape

    def part(tensor: Tensor) -> Tensor | None:
        # the axis as long as the text; the length is a prime no width is likely to share
        axes = (i for i in (1, 2, 0, 3) if i < tensor.ndim and tensor.shape[i] == length)
        axis = next(axes, None)
        if axis is None and tensor.ndim and tensor.shape[0] == batch * length:
            tensor, axis = tensor.unflatten(0, (batch, length)), 1
        return None if axis is None else tensor.narrow(axis, 0, after + 1)

    before = record_calls(subject, lambda: situation.logits(subject))
    now = record_calls(subject, lambda: situation.logits(subject, changed))
    return _first_difference(subject, before, now, part, noise)


def localize_rows(subject: Subject, rows: Tensor, others: Tensor, noise: Noise) -> Location:
    """Where the first row first differs when the other rows are `others`."""
    count, length = rows.shape

    def part(tensor: Tensor) -> Tensor | None:
        if not tensor.ndim or tensor.shape[0] not in (count, count * length):
            return None
        return tensor[: tensor.shape[0] // count]

    other = torch.cat([rows[:1], others[: count - 1]])
    before = record_calls(subject, lambda: subject.logits(rows))
    now = record_calls(subject, lambda: subject.logits(other))
    return _first_difference(subject, before, now, part, noise)


def localize_truncation(subject: Subject, ids: Tensor, fewer: Tensor, noise: Noise) -> Location:
    """Where positions of the truncated text first differ from those of the whole text."""
    n, kept = ids.shape[1], fewer.shape[1]

    def part(tensor: Tensor) -> Tensor | None:
        for axis, size in enumerate(tensor.shape):
            tensor = tensor.narrow(axis, 0, kept) if size == n else tensor
        return tensor if kept in tensor.shape else None

    before = record_calls(subject, lambda: subject.logits(ids))
    now = record_calls(subject, lambda: subject.logits(fewer))
    return _first_difference(subject, before, now, part, noise)


def localize_repeat(subject: Subject, rows: Tensor, earlier: Tensor | None) -> Location:
    """Where two calls with the same rows first differ, the second after `earlier` if given."""

    def ask() -> Tensor:
        return subject.logits(rows, fresh=False)

    def ask_fixed() -> Tensor:
        with fixed_random_state(subject.visible_module):
            return ask()

    if earlier is None or subject.visible_module is None:
        before, now = record_calls(subject, ask), record_calls(subject, ask)
    else:
        with restore_state(subject.visible_module):
            before = record_calls(subject, ask_fixed)
        with restore_state(subject.visible_module):
            with fixed_random_state(subject.visible_module):
                subject.logits(earlier, fresh=False)
            now = record_calls(subject, ask_fixed)
    return _first_difference(subject, before, now, lambda tensor: tensor, None)


def record_calls(subject: Subject, run: Callable[[], object]) -> Calls:
    """The calls of all modules during `run`; none where no module is seen."""
    seen: Calls = []
    if subject.visible_module is None:
        return seen

    def make_hook(name: str) -> Any:
        def hook(inner: nn.Module, args: Any, kwargs: Any, outputs: Any) -> None:
            inputs = list(_tensors((args, kwargs)))
            seen.append(ModuleCall(name, type(inner).__name__, inputs, list(_tensors(outputs))))

        return hook

    hooks = [
        inner.register_forward_hook(make_hook(name), with_kwargs=True)
        for name, inner in subject.visible_module.named_modules()
        if not isinstance(inner, torch.jit.ScriptModule)  # compiled modules take no hooks
    ]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _tensors(item: Any, depth: int = 3) -> Iterator[Tensor]:
    """The tensors in nested tuples and mappings, copied: a module may write over its input."""
    if isinstance(item, Tensor):
        yield item.detach().clone()
    elif depth and isinstance(item, tuple | list | Mapping):
        for part in item.values() if isinstance(item, Mapping) else item:
            yield from _tensors(part, depth - 1)


def _first_difference(
    subject: Subject, before: Calls, now: Calls, part: Part, noise: Noise | None
) -> Location:
    if not before:
        what = "its modules cannot be recorded" if subject.module else "a function shows no modules"
        return Location("", f"{what}, so the place is not known")
    if [call.name for call in before] != [call.name for call in now]:
        return Location("", "the model calls other modules")
    differ = partial(_differ, part=part, noise=noise)
    pairs = list(zip(before, now, strict=True))
    for one, two in pairs:
        if not differ(one.outputs, two.outputs) or differ(one.inputs, two.inputs):
            continue
        if one.name:
            text = f"{one.name.split('.')[-1]} {one.kind}".lower()
            hint = next((words for keys, words in HINTS if any(key in text for key in keys)), "")
            words = f"it begins in `{one.name}` ({one.kind})" + (f": {hint}" if hint else "")
        else:
            reached = next((a.name for a, b in pairs if differ(a.inputs, b.inputs)), "")
            words = "it begins in the model's own forward, outside of its modules"
            words += f", before `{reached}`" if reached else ""
        return Location(one.name, words)
    return Location("", "it begins outside of any module")


def _differ(one: list[Tensor], two: list[Tensor], part: Part, noise: Noise | None) -> bool:
    """Whether the compared part of any tensor differs by more than the model's noise."""
    if len(one) != len(two):
        return True
    for a, b in zip(map(part, one), map(part, two), strict=True):
        if a is None or b is None:
            continue  # it has no positions: a scalar, a table, a pooled vector
        if a.shape != b.shape:
            return True
        if noise is None or not a.is_floating_point():
            differs = not torch.equal(a, b)
        else:
            scale = float(finite_values(a).abs().nan_to_num().max()) or 1.0
            limit = noise.threshold / (noise.scale or 1.0) * scale
            gap = (finite_values(a) - finite_values(b)).abs()
            differs = bool((gap.nan_to_num(posinf=torch.inf) > limit).any())
        if differs:
            return True
    return False


# ------------------------------------------------------------------------------ how far it looks


def leak_horizon(subject: Subject, leak: Leak, threshold: float) -> tuple[list[int], str]:
    """Distances of the later tokens that change the prediction, and a phrase for people.

    They are changed one at a time; in the middle of the text too, if the leak is near its end.
    """
    if leak.by_truncation:
        return [], "at no later token, only at how many there are"
    ids, changed, n = leak.situation.ids, leak.changed, leak.situation.length
    before = leak.situation.logits(subject)
    differs = (changed != ids).all(dim=0)  # a token that some row keeps is replaced by the next id
    different = torch.where(differs, changed, (ids + 1) % subject.vocabulary)

    def moves(at: int, other: Tensor) -> bool:
        gap = movement(before, leak.situation.logits(subject, other))
        return float(gap[leak.row, at]) > threshold

    def change(at: int | Tensor, to: Tensor) -> Tensor:
        other = ids.clone()
        other[:, at] = to[:, at]
        return other

    middle = [] if leak.position < n - 2 or n > NEAR else [n // 3]
    for at in (*middle, leak.position):
        later = range(at + 1, min(n, at + 1 + NEAR))
        distances = [j - at for j in later if moves(at, change(j, different))]
        if distances:
            return distances, _phrase(distances, len(later))
    some = (changed != ids).any(dim=0).nonzero().flatten()
    while len(some) > 1:  # bisection for one later token that alone changes the prediction
        halves = some[: len(some) // 2], some[len(some) // 2 :]
        some = next(
            (half for half in halves if moves(leak.position, change(half, changed))), some[:0]
        )
    if not len(some):
        return [], "ahead only when many later tokens change together"
    distance = int(some[0]) - leak.position
    return [distance], f"{distance} tokens ahead"


def _phrase(distances: list[int], last: int) -> str:
    """How far ahead, where `last` is the largest distance tried."""
    if distances == [1]:
        return "one token ahead"
    if max(distances) >= last:
        return "at the whole rest of the text"
    return f"{'' if len(distances) == 1 else 'up to '}{max(distances)} tokens ahead"
