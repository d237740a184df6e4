"""Newton's method on f for many problems side by side: does it converge, or run off to infinity?

With y = -C^-1 g the step, lambda_i (1 + (d_i - g) . y) satisfies sum lambda_i d_i = 0 exactly. So a
step that changes every score by less than 1 proves that 0 lies inside the convex hull of the rows.
Otherwise every step lowers the scores off the smallest face that contains 0 by about 1, forever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnlab.construct.log_sum_exp import LogSumExp, Point, backtrack, evaluate, solve_symmetric
from attnlab.construct.numerics import EPS, Array, Mask

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
    """The last point, the last step and its change of scores; `inside` where Newton converged."""

    at: Point
    step: Array
    change: Array
    inside: Mask


def minimise(objective: LogSumExp, q: Array, may_diverge: bool = True) -> NewtonResult:
    """Minimise f from q until no score changes or, if it may diverge, until it is clear it does."""
    at = evaluate(objective, q)
    result = NewtonResult(at, np.zeros_like(q), np.full(len(q), np.inf), np.zeros(len(q), bool))
    least, idle = result.change.copy(), np.zeros(len(q))
    active = np.arange(len(q))
    for _ in range(_STEPS):
        here = Point(*(part[active] for part in result.at))
        new, step, change, decrement = _newton_step(objective.take(active), here)
        for into, part in zip(result.at, new, strict=True):
            into[active] = part
        result.step[active], result.change[active] = step, change
        idle[active] = np.where(change < 0.5 * least[active], 0, idle[active] + 1)
        least[active] = np.minimum(change, least[active])
        inside = (change < _DONE) | ((change < ROUNDED) & (idle[active] >= _PATIENCE))
        result.inside[active] = inside
        diverged = (result.at.f[active] < -BELOW) | ((decrement < _DIVERGED) & (change > HALF))
        active = active[~(inside | (may_diverge & diverged))]
        if not active.size:
            break
    return result


def _newton_step(objective: LogSumExp, at: Point) -> tuple[Point, Array, Array, Array]:
    """A damped step: the new point, the step, its largest change of a score, squared decrement."""
    g = objective.mean(at.p)
    hessian = objective.covariance(at.p, g)
    diagonal = np.arange(g.shape[1])
    # Rounding may leave a direction without curvature; along it there is nothing to gain.
    damping = EPS * np.trace(hessian, axis1=1, axis2=2) + _TINY
    hessian[:, diagonal, diagonal] += damping[:, None]
    step = -solve_symmetric(hessian, g[:, :, None])[:, :, 0]
    moves = objective.scores(step)
    along = (g * step).sum(axis=1)
    change = np.abs(np.where(at.p > _NEGLIGIBLE, moves - along[:, None], 0.0)).max(axis=1)
    # The part of the gradient that the Hessian without damping could not cancel.
    left = np.linalg.norm(damping[:, None] * step, axis=1)
    singular = left > 0.1 * np.linalg.norm(g, axis=1) + 64 * objective.noise(at.p)
    change = np.where(singular, np.inf, change)
    longest = np.abs(np.where(at.p > _NEGLIGIBLE, moves, 0.0)).max(axis=1)
    step /= np.maximum(1.0, longest / _LONGEST_STEP)[:, None]
    new = backtrack(objective, at, step, np.ones(len(g)), ridge=0.0)
    return new, step, change, -along
