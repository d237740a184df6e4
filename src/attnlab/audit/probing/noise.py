"""How much logits move when nothing that should matter is changed: the yardstick of every audit.

Neutral changes: another number of threads, copies of the row beside it, other rows beside it,
another order of rows. The largest movement is the noise of the arithmetic; a fault must exceed ten
times it, and ten times the rounding of the coarsest number inside: many a model computes its norms
in float32 whatever its weights are. A movement too large to be rounding (LIMITS · scale) is no
noise but a dependence on the batch, and is left to the audit of that name.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.subject import Subject

FACTOR = 10.0
ALONE = 10.0
HUGE = 1e30  # larger logits stand for "never": not a size to measure with
# the most that rounding moves logits of size 1, by the coarsest numbers inside
LIMITS = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.3}
SAME = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)  # no new numbers
INSIDE = 1e-5  # … in a float64 copy that still rounds to float32 here and there


@dataclass(frozen=True)
class Noise:
    """The largest neutral movement; `beyond` are changes that moved more than rounding can."""

    value: float
    scale: float  # the largest logit
    by: dict[str, float]
    beyond: dict[str, float]
    dtype: torch.dtype
    rounding: float  # the most that rounding can move logits
    floor: float  # what rounding moves at least somewhere

    @property
    def threshold(self) -> float:
        """Movements above it are faults."""
        return FACTOR * max(self.value, self.floor)

    @property
    def elsewhere(self) -> float:
        """Movements above it are faults where a token stands at another place, or in other pieces.

        Tables of positions and decays are made in float32, whatever they are then stored in: what
        should depend on distances alone moves by as much when the places move.
        """
        tables = FACTOR * self.scale * torch.finfo(torch.float32).eps
        return max(self.threshold, self.rounding, tables)

    def evidence(self) -> dict[str, object]:
        """For the record."""
        return {
            "noise": self.value,
            "scale": self.scale,
            "precision": str(self.dtype).removeprefix("torch."),
            "neutral_changes": self.by,
        }


def finite_values(logits: Tensor) -> Tensor:
    """As float64; entries that stand for "never" become 0."""
    found = logits.detach().double()
    return torch.where(found.abs() < HUGE, found, 0.0)


def movement(before: Tensor, after: Tensor) -> Tensor:
    """|after − before|, the largest over the vocabulary; a NaN on one side only is infinite."""
    one_sided = before.isnan() != after.isnan()
    gap = (finite_values(after).nan_to_num() - finite_values(before).nan_to_num()).abs()
    return torch.where(one_sided, torch.inf, gap).amax(dim=-1)


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """With so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def noise_of(subject: Subject, probe: Probe, length: int | None = None) -> Noise:
    """Measure it on the first probe row; kept, for every audit asks."""
    at = length or probe.short(subject)
    key = f"noise {probe.seed} {at}"
    if key not in subject.memo:
        subject.memo[key] = _measure(subject, probe, at)
    return subject.memo[key]


class _Coarsest(TorchDispatchMode):
    """The coarsest floating type that any operation gives back."""

    def __init__(self) -> None:
        super().__init__()
        self.eps = 0.0
        self.dtype = torch.float64

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func in SAME:
            return made
        for item in made if isinstance(made, tuple | list) else (made,):
            if isinstance(item, Tensor) and item.is_floating_point() and item.numel() > 1:
                eps = torch.finfo(item.dtype).eps
                if eps > self.eps:
                    self.eps, self.dtype = eps, item.dtype
        return made


def coarsest_dtype(subject: Subject, ids: Tensor) -> torch.dtype:
    """Of all numbers on the way from ids to logits."""
    try:
        with _Coarsest() as seen:
            answer = subject.logits(ids).dtype
    except Exception:  # an operation that cannot be watched
        return torch.float32
    return max(seen.dtype, answer, key=lambda dtype: torch.finfo(dtype).eps)


def logit_scale(logits: Tensor) -> float:
    """The largest logit of those that vary: a column of −1e9 is a ban, not a size."""
    found = finite_values(logits).nan_to_num()
    vary = found.amax(dim=1, keepdim=True) > found.amin(dim=1, keepdim=True)
    return float((found * vary if bool(vary.any()) else found).abs().max())


def _measure(subject: Subject, probe: Probe, length: int) -> Noise:
    rows = probe.rows(subject, length)
    one = rows[:1]
    base = subject.logits(one)
    scale = logit_scale(base)
    inside = coarsest_dtype(subject, one)
    finer = torch.finfo(subject.dtype).eps < torch.finfo(inside).eps
    limit = scale * (INSIDE if finer else LIMITS[inside])
    # no float64 copy can tell a small leak from the rounding of a Fourier transform, say
    floor = scale * torch.finfo(inside).eps * (1 if subject.dtype == torch.float64 else ALONE)
    found = {
        name: float(movement(base, change()).max())
        for name, change in _neutral(subject, rows).items()
    }
    fine = {name: value for name, value in found.items() if value <= limit}
    beyond = {name: value for name, value in found.items() if value > limit}
    return Noise(max(fine.values(), default=0.0), scale, fine, beyond, inside, limit, floor)


def _neutral(subject: Subject, rows: Tensor) -> dict[str, Callable[[], Tensor]]:
    one, last = rows[:1], rows.shape[0] - 1

    def other_threads() -> Tensor:
        with use_threads(1 if torch.get_num_threads() > 1 else 2):
            return subject.logits(one)

    return {
        "threads": other_threads,
        "two copies": lambda: subject.logits(one.repeat(2, 1))[:1],
        "five copies": lambda: subject.logits(one.repeat(5, 1))[-1:],
        "neighbours": lambda: subject.logits(rows)[:1],
        "order": lambda: subject.logits(rows.flip(0))[last : last + 1],
    }
