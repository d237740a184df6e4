"""How much logits move when nothing that should matter is changed: the yardstick of every audit.

Neutral changes: another number of threads, copies of the row beside it, other rows beside it,
another order of rows. The largest movement is the noise of the arithmetic; a fault must exceed ten
times it, and ten times the rounding of the coarsest type inside: many a model computes its norms in
float32 whatever its weights are. A movement too large to be rounding (LIMITS · scale) is not noise
but a dependence on the batch, and is left to the audit batch-independence.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.subject import Subject
from attnlab.training.determinism import use_threads

FACTOR = 10.0
ALONE = 10.0
HUGE = 1e30  # larger logits stand for "never" and are not measured
# the most that rounding moves logits of size 1, by the coarsest type inside
LIMITS = {torch.float64: 1e-8, torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.3}
NO_OPS = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)  # they compute nothing
INSIDE = 1e-5  # the same for a float64 copy that still rounds to float32 in places


@dataclass(frozen=True)
class Noise:
    """The largest movement of the logits by neutral changes, and what rounding explains."""

    value: float
    scale: float  # the largest logit
    by_change: dict[str, float]
    dtype: torch.dtype
    rounding: float  # the most that rounding can move the logits
    floor: float  # the least that rounding must be expected to move them

    @property
    def threshold(self) -> float:
        """Movements above it are faults."""
        return FACTOR * max(self.value, self.floor)

    @property
    def position_threshold(self) -> float:
        """The threshold where a text is shifted to other positions, or read in pieces.

        Tables of positions and decays are computed in float32, whatever they are stored in: what
        depends on distances alone still moves by that rounding when positions change.
        """
        tables = FACTOR * self.scale * torch.finfo(torch.float32).eps
        return max(self.threshold, self.rounding, tables)

    def evidence(self) -> dict[str, object]:
        """Noise, scale and precision, as every finding records them."""
        return {
            "noise": self.value,
            "scale": self.scale,
            "precision": str(self.dtype).removeprefix("torch."),
            "neutral_changes": self.by_change,
        }


def finite_values(logits: Tensor) -> Tensor:
    """The logits in float64; entries that stand for "never" become 0."""
    values = logits.detach().double()
    return torch.where(values.abs() < HUGE, values, 0.0)


def movement(before: Tensor, after: Tensor) -> Tensor:
    """|after − before|, the largest over the vocabulary; a NaN on one side only is infinite."""
    one_sided = before.isnan() != after.isnan()
    gap = (finite_values(after).nan_to_num() - finite_values(before).nan_to_num()).abs()
    return torch.where(one_sided, torch.inf, gap).amax(dim=-1)


def largest_movement(before: Tensor, after: Tensor) -> float:
    """The movement of the logit that moves most."""
    return float(movement(before, after).max())


class _CoarsestDtype(TorchDispatchMode):
    """Records the coarsest floating type that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.eps = 0.0
        self.dtype = torch.float64

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        if func in NO_OPS:
            return output
        for item in output if isinstance(output, tuple | list) else (output,):
            if isinstance(item, Tensor) and item.is_floating_point() and item.numel() > 1:
                eps = torch.finfo(item.dtype).eps
                if eps > self.eps:
                    self.eps, self.dtype = eps, item.dtype
        return output


def coarsest_dtype(subject: Subject, ids: Tensor) -> torch.dtype:
    """The coarsest floating type of any tensor between ids and logits."""
    try:
        with _CoarsestDtype() as seen:
            answer = subject.logits(ids).dtype
    except Exception:  # an operation that cannot be intercepted
        return torch.float32
    return max(seen.dtype, answer, key=lambda dtype: torch.finfo(dtype).eps)


def logit_scale(logits: Tensor) -> float:
    """The largest logit among those that vary: a column of −1e9 bans a token."""
    values = finite_values(logits).nan_to_num()
    vary = values.amax(dim=1, keepdim=True) > values.amin(dim=1, keepdim=True)
    return float((values * vary if bool(vary.any()) else values).abs().max())


def noise_of(subject: Subject, probe: Probe) -> Noise:
    """The noise on the first probe row; measured once and remembered."""
    key = f"noise {probe.seed} {probe.short_length(subject)}"
    return subject.remember(key, lambda: _measure(subject, probe.rows(subject)))


def _measure(subject: Subject, rows: Tensor) -> Noise:
    one = rows[:1]
    base = subject.logits(one)
    scale = logit_scale(base)
    inside = coarsest_dtype(subject, one)
    coarser_inside = torch.finfo(subject.dtype).eps < torch.finfo(inside).eps
    limit = scale * (INSIDE if coarser_inside else LIMITS[inside])
    # without a float64 copy a small leak looks like the rounding of a Fourier transform
    floor = scale * torch.finfo(inside).eps * (1 if subject.dtype == torch.float64 else ALONE)
    answers = _neutral_changes(subject, rows)
    movements = {name: largest_movement(base, answer) for name, answer in answers.items()}
    rounding = {name: value for name, value in movements.items() if value <= limit}
    return Noise(max(rounding.values(), default=0.0), scale, rounding, inside, limit, floor)


def _neutral_changes(subject: Subject, rows: Tensor) -> dict[str, Tensor]:
    """The logits of the first row, computed in ways that should not matter."""
    one = rows[:1]
    with use_threads(1 if torch.get_num_threads() > 1 else 2):
        other_threads = subject.logits(one)
    return {
        "threads": other_threads,
        "two copies": subject.logits(one.repeat(2, 1))[:1],
        "five copies": subject.logits(one.repeat(5, 1))[-1:],
        "neighbours": subject.logits(rows)[:1],
        "order": subject.logits(rows.flip(0))[-1:],
    }
