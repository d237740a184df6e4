"""Newton's method on f: does it converge, or run off to infinity?

With y = -C^-1 g the step, lambda_i (1 + (d_i - g) . y) satisfies sum lambda_i d_i = 0 exactly. So a
step that changes every score by less than 1 proves that 0 lies inside the convex hull of the rows.
Otherwise every step lowers the scores off the smallest face that contains 0 by about 1, forever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnlab.construct.log_sum_exp import LogSumExp, Point, backtrack, solve_symmetric
from attnlab.construct.numerics import EPS, Array

BELOW = 1e-3  # f below zero by this: q itself has d_i . q < 0 for every row, as H(lambda) >= 0
HALF = 0.5  # a step lowers scores off the face by 1 and those on it by 0
ROUNDED = 1e-4  # a change this small that no longer shrinks is rounding
_STEPS = 120
_DONE = 1e-10  # change of a score in the last step; the next one would be its square
_PATIENCE = 4
_DIVERGED = 1e-13  # squared decrement by which Newton would have converged to an interior point
_LONGEST_STEP = 50.0  # largest change of a score in a step: e^50 exceeds any weight that matters
_NEGLIGIBLE = 1e-200  # a weight that counts as zero
_TINY = float(np.finfo(np.float64).tiny)


class NewtonResult(NamedTuple):
    """The last point, the last step and its change of scores; `inside` if Newton converged."""

    at: Point
    step: Array
    change: float
    inside: bool


def minimise(rows: Array, q: Array, may_diverge: bool = True) -> NewtonResult:
    """Minimise f from q until no score changes or, if it may diverge, until it is clear it does."""
    objective = LogSumExp(rows)
    at, step, change = objective.at(q), np.zeros_like(q), np.inf
    least, idle = np.inf, 0
    for _ in range(_STEPS):
        at, step, change, decrement = _newton_step(objective, at)
        idle = 0 if change < 0.5 * least else idle + 1
        least = min(change, least)
        if change < _DONE or (change < ROUNDED and idle >= _PATIENCE):
            return NewtonResult(at, step, change, True)
        if may_diverge and (at.f < -BELOW or (decrement < _DIVERGED and change > HALF)):
            break
    return NewtonResult(at, step, change, False)


def _newton_step(objective: LogSumExp, at: Point) -> tuple[Point, Array, float, float]:
    """A damped step: the new point, the step, its largest change of a score, squared decrement."""
    g = objective.gradient(at.p)
    hessian = objective.hessian(at.p, g)
    # Rounding may leave a direction without curvature; along it there is nothing to gain.
    damping = EPS * np.trace(hessian) + _TINY
    hessian[np.diag_indices_from(hessian)] += damping
    step = -solve_symmetric(hessian, g[:, None])[:, 0]
    moves = objective.rows @ step
    along = float((g * step).sum())
    counts = at.p > _NEGLIGIBLE
    change = float(np.abs(np.where(counts, moves - along, 0.0)).max())
    # The part of the gradient that the Hessian without damping could not cancel.
    left = np.linalg.norm(damping * step)
    if left > 0.1 * np.linalg.norm(g) + 64 * objective.noise(at.p):
        change = np.inf
    longest = float(np.abs(np.where(counts, moves, 0.0)).max())
    step = step / max(1.0, longest / _LONGEST_STEP)
    return backtrack(objective, at, step, mu=1.0, ridge=0.0), step, change, -along
