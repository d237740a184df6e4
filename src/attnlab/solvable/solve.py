"""Minimise E(W) for many students at once: limited-memory quasi-Newton, or gradient descent.

Along a direction d the fields are linear, S(W + t d) = S + t S_d, so the line search needs no
further product with the data: an iteration costs exactly one product with x and one with xᵀ. The
landscape has many minima, so the path matters. The first steps follow the gradient; every step
stops at the *first* minimum along its line and moves the fields by at most `max_move` (root mean
square, relative where they exceed 1). This keeps a student in the basin of attraction of gradient
descent (tests/solvable/test_solve.py).
"""

from dataclasses import dataclass, field
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from attnlab.core.config import Settings
from attnlab.solvable.student import Fields, Loss, Weights

PerStudent = Float[Tensor, " student"]
LINE_EVALUATIONS = 12  # cheap: without a product with the data
SLOPE_REDUCTION = 0.3  # of the slope at which the line search stops
ARMIJO = 1e-4
FIRST_RATE = 0.6  # largest learning rate of the first gradient steps
MAX_STALLS = 3  # steps in a row without a decrease of E
KEEP_SHARE = 0.75  # converged students are dropped once they are a quarter of all


class SolverSettings(Settings):
    """Method and stopping rule; `tolerance` applies to the largest entry of the gradient."""

    method: Literal["quasi-newton", "gradient-descent"] = "quasi-newton"
    tolerance: float = Field(default=1e-6, gt=0)
    max_evaluations: int = Field(default=2000, ge=1)
    memory: int = Field(default=10, ge=1)  # curvature pairs
    max_move: float = Field(default=0.1, gt=0)  # root mean square change of the fields in one step
    descent_steps: int = Field(default=30, ge=0)  # gradient steps before the quasi-Newton steps
    rate: float = Field(default=0.15, gt=0)  # learning rate of gradient descent


@dataclass(frozen=True)
class Solution:
    """The final weights of each student; `value` is E, `evaluations` counts gradients."""

    weights: Weights
    value: PerStudent
    gradient_max: PerStudent
    evaluations: Tensor
    converged: Tensor


@dataclass
class _Point:
    """The current weights of the students with their fields, E and ∇E."""

    weights: Weights
    fields: Fields
    value: PerStudent
    gradient: Weights

    @staticmethod
    def at(loss: Loss, weights: Weights, fields: Fields) -> "_Point":
        value, slope = loss.data_term(fields)
        gradient = loss.pull_back(slope) + loss.ridge[:, None, None] * weights
        value = value + 0.5 * loss.ridge * _dot(weights, weights)
        return _Point(weights, fields, value, gradient)

    @property
    def gradient_max(self) -> PerStudent:
        return self.gradient.abs().amax(dim=(1, 2))

    def take(self, keep: Tensor) -> "_Point":
        """The point of some of the students."""
        return _Point(
            self.weights[keep], self.fields[:, :, keep], self.value[keep], self.gradient[keep]
        )


def minimise(loss: Loss, start: Weights, settings: SolverSettings | None = None) -> Solution:
    """Descend from `start` until every student's |∇E|∞ < tolerance or evaluations run out."""
    chosen = settings or SolverSettings()
    if chosen.method == "gradient-descent":
        return _gradient_descent(loss, start, chosen)
    return _quasi_newton(loss, start, chosen)


def _gradient_descent(loss: Loss, start: Weights, settings: SolverSettings) -> Solution:
    """W ← W − rate·∇E: the reference for the basin in which a student ends."""
    weights = start.clone()
    count = torch.zeros(weights.shape[0], dtype=torch.long, device=weights.device)
    for _ in range(settings.max_evaluations):
        value, gradient = loss.value_and_gradient(weights)
        largest = gradient.abs().amax(dim=(1, 2))
        moving = largest >= settings.tolerance
        count += 1
        if not bool(moving.any()) or not bool(torch.isfinite(largest).all()):
            break
        weights = weights - settings.rate * moving[:, None, None] * gradient
    value, gradient = loss.value_and_gradient(weights)
    largest = gradient.abs().amax(dim=(1, 2))
    return Solution(weights, value, largest, count, largest < settings.tolerance)


@dataclass
class _Curvature:
    """The last `memory` pairs (step, change of gradient) of every student."""

    memory: int
    steps: list[Weights] = field(default_factory=list)
    changes: list[Weights] = field(default_factory=list)
    inverse: list[PerStudent] = field(default_factory=list)  # 1 / (s·y); 0 where unusable

    def add(self, step: Weights, change: Weights) -> None:
        product = _dot(step, change)
        usable = product > 1e-12 * _dot(change, change).sqrt() * _dot(step, step).sqrt()
        usable &= product > 0
        self.steps.append(step)
        self.changes.append(change)
        self.inverse.append(torch.where(usable, 1 / product.clamp_min(1e-300), 0.0))
        if len(self.steps) > self.memory:
            for kept in (self.steps, self.changes, self.inverse):
                del kept[0]

    def take(self, keep: Tensor) -> "_Curvature":
        """The pairs of some of the students."""
        lists = (self.steps, self.changes, self.inverse)
        return _Curvature(self.memory, *([kept[keep] for kept in many] for many in lists))

    def newton_direction(self, gradient: Weights) -> Weights:
        """−H∇E by the two-loop recursion of L-BFGS, without the pairs a student cannot use."""
        direction = -gradient
        shares: list[PerStudent] = []
        pairs = list(zip(self.steps, self.changes, self.inverse, strict=True))
        for step, change, inverse in reversed(pairs):
            share = inverse * _dot(step, direction)
            direction = torch.addcmul(direction, share[:, None, None], change, value=-1)
            shares.append(share)
        scale = torch.ones_like(self.inverse[0])
        for _, change, inverse in pairs:  # the newest usable pair sets the scale
            curvature = 1 / (inverse * _dot(change, change)).clamp_min(1e-300)
            scale = torch.where(inverse > 0, curvature, scale)
        direction = scale[:, None, None] * direction
        for (step, change, inverse), share in zip(pairs, reversed(shares), strict=True):
            back = share - inverse * _dot(change, direction)
            direction = torch.addcmul(direction, back[:, None, None], step)
        return direction


def _quasi_newton(loss: Loss, start: Weights, settings: SolverSettings) -> Solution:
    """L-BFGS in the weights with a line search in the fields; converged students are dropped."""
    final, count = start.clone(), torch.ones(start.shape[0], dtype=torch.long, device=start.device)
    index = torch.arange(start.shape[0], device=start.device)  # which students are still moving
    moving, curvature = loss, _Curvature(settings.memory)
    point = _Point.at(moving, start, moving.fields(start))
    stalls = torch.zeros_like(index)
    for iteration in range(settings.max_evaluations - 1):
        active = (point.gradient_max >= settings.tolerance) & (stalls < MAX_STALLS)
        final[index] = point.weights
        if int(active.sum()) <= KEEP_SHARE * len(index):
            index, stalls, point = index[active], stalls[active], point.take(active)
            if not len(index):
                break
            moving, curvature = loss.take(index), curvature.take(active)
            active = torch.ones_like(index, dtype=torch.bool)
        first = iteration < settings.descent_steps
        following, step = _advance(moving, point, curvature, active, settings, first)
        curvature.add(step, following.gradient - point.gradient)
        # where E no longer decreases, the rest is rounding
        stalls = torch.where(following.value < point.value, 0, stalls + 1)
        point = following
        count[index] += active
    final[index] = point.weights
    # the fields were updated step by step: recompute them at the end
    end = _Point.at(loss, final, loss.fields(final))
    largest = end.gradient_max
    return Solution(final, end.value, largest, count + 1, largest < settings.tolerance * 1.05)


def _advance(
    loss: Loss,
    point: _Point,
    curvature: _Curvature,
    active: Tensor,
    settings: SolverSettings,
    first: bool,
) -> tuple[_Point, Weights]:
    """One step along the gradient (`first`) or the quasi-Newton direction."""
    direction = -point.gradient if first else _descent_direction(curvature, point.gradient)
    along = loss.fields(direction)
    longest = _longest(point, along, settings.max_move)
    if first:
        longest = longest.clamp_max(FIRST_RATE)
    length = _line_search(loss, point, direction, along, longest) * active
    step = length[:, None, None] * direction
    fields = torch.addcmul(point.fields, length[None, None, :, None], along)
    return _Point.at(loss, point.weights + step, fields), step


def _descent_direction(curvature: _Curvature, gradient: Weights) -> Weights:
    """The quasi-Newton direction, or −∇E for students for which it is not a descent direction."""
    if not curvature.steps:
        return -gradient
    direction = curvature.newton_direction(gradient)
    downhill = _dot(direction, gradient) < 0
    return torch.where(downhill[:, None, None], direction, -gradient)


def _longest(point: _Point, along: Fields, max_move: float) -> PerStudent:
    """The t at which the fields have moved by `max_move` times their size (or times 1)."""
    count = along.numel() / along.shape[2]
    move = (_field_dot(along, along) / count).sqrt()
    size = (_field_dot(point.fields, point.fields) / count).sqrt()
    return max_move * size.clamp_min(1.0) / move.clamp_min(1e-300)


def _line_search(
    loss: Loss, point: _Point, direction: Weights, along: Fields, largest: PerStudent
) -> PerStudent:
    """The first t > 0 where the slope of E(W + t d) nearly vanishes, for each student."""
    cross, square = _dot(point.weights, direction), _dot(direction, direction)
    norm = _dot(point.weights, point.weights)
    slope_0 = _dot(point.gradient, direction)
    low, slope_low = torch.zeros_like(largest), slope_0
    high = torch.full_like(largest, torch.inf)
    slope_high = torch.full_like(largest, torch.nan)
    t = torch.minimum(torch.ones_like(largest), largest)
    best = torch.zeros_like(t)
    for _ in range(LINE_EVALUATIONS):
        fields = torch.addcmul(point.fields, t[None, None, :, None], along)
        value, slope = loss.data_term(fields)
        value = value + 0.5 * loss.ridge * (norm + 2 * t * cross + t * t * square)
        rise = _field_dot(slope, along) + loss.ridge * (cross + t * square)
        lower = value <= point.value + ARMIJO * t * slope_0 + 1e-15 * point.value.abs()
        settled = lower & (rise.abs() <= -SLOPE_REDUCTION * slope_0)
        best = torch.where(lower, t, best)
        settled |= lower & (t >= largest) & (rise < 0)
        if bool(settled.all()):
            break
        forward = lower & (rise < 0)
        low, slope_low = torch.where(forward, t, low), torch.where(forward, rise, slope_low)
        high = torch.where(forward, high, t)
        slope_high = torch.where(forward, slope_high, rise)
        t = torch.where(settled, t, _next_length(low, high, slope_low, slope_high, largest))
    return best


def _next_length(
    low: PerStudent,
    high: PerStudent,
    slope_low: PerStudent,
    slope_high: PerStudent,
    largest: PerStudent,
) -> PerStudent:
    """Twice t while the slope is negative, otherwise the secant root inside the bracket."""
    farther = torch.minimum(2 * low, largest)
    share = slope_low / (slope_low - slope_high)
    share = torch.where((slope_high > 0) & torch.isfinite(share), share, 0.5).clamp(0.1, 0.9)
    inside = low + share * (torch.where(high.isinf(), low, high) - low)
    return torch.where(high.isinf(), farther, inside)


def _dot(a: Weights, b: Weights) -> PerStudent:
    """a·b for every student, as a batched product without a copy of a*b."""
    return torch.bmm(a.flatten(1)[:, None, :], b.flatten(1)[:, :, None])[:, 0, 0]


def _field_dot(a: Fields, b: Fields) -> PerStudent:
    """Σ a·b over tokens, samples and rank, for every student."""
    return (a * b).sum(dim=(0, 1, 3)) if a.shape[3] > 1 else (a * b)[..., 0].sum(dim=(0, 1))
