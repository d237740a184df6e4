"""Newton on f alone, many problems side by side: does it end at a point, or run away for ever?

With y = -C^-1 g the step, lambda_i (1 + (d_i - g) . y) solves sum lambda_i d_i = 0 exactly. So a
step that changes no score by 1 or more proves that 0 lies inside the hull of the rows. Elsewhere
every step lowers the scores off the least face that holds 0 by about 1, for ever.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.log_sum_exp import (
    EPS,
    Array,
    LogSumExp,
    Point,
    backtrack,
    evaluate,
    solve_symmetric,
)

Mask = NDArray[np.bool_]

BELOW = 1e-3  # f below zero by this: q itself has d_i . q < 0 for every row, as H(lambda) >= 0
HALF = 0.5  # a step lowers scores off the face by 1, those on it by 0
ROUNDED = 1e-4  # a change this small that shrinks no more is rounding
_STEPS = 120
_DONE = 1e-10  # change of a score in the last step; the next one would be its square
_PATIENCE = 4
_OPEN = 1e-13  # squared decrement by which an interior point would have been found
_LEAP = 50.0  # a step changes scores by this at most: e^50 is past any weight that matters
_GONE = 1e-200  # a weight that is as good as none
_TINY = float(np.finfo(np.float64).tiny)


class NewtonResult(NamedTuple):
    """Newton on f alone: where it ended, its last step, the change of scores in it."""

    at: Point
    step: Array
    change: Array
    inside: Mask


def minimise(excess: LogSumExp, q: Array, open_ended: bool = True) -> NewtonResult:
    """Newton on f, every problem, until no score changes or it is clear that it runs away."""
    at = evaluate(excess, q)
    found = NewtonResult(at, np.zeros_like(q), np.full(len(q), np.inf), np.zeros(len(q), bool))
    least, idle = found.change.copy(), np.zeros(len(q))
    active = np.arange(len(q))
    for _ in range(_STEPS):
        here = Point(*(part[active] for part in found.at))
        new, step, change, decrement = _step(excess.take(active), here)
        for into, part in zip(found.at, new, strict=True):
            into[active] = part
        found.step[active], found.change[active] = step, change
        idle[active] = np.where(change < 0.5 * least[active], 0, idle[active] + 1)
        least[active] = np.minimum(change, least[active])
        inside = (change < _DONE) | ((change < ROUNDED) & (idle[active] >= _PATIENCE))
        found.inside[active] = inside
        runs = (found.at.f[active] < -BELOW) | ((decrement < _OPEN) & (change > HALF))
        active = active[~(inside | (open_ended & runs))]
        if not active.size:
            break
    return found


def _step(excess: LogSumExp, at: Point) -> tuple[Point, Array, Array, Array]:
    """One damped Newton step; its largest change of a score, and the squared decrement."""
    g = excess.mean(at.p)
    curve = excess.covariance(at.p, g)
    diagonal = np.arange(g.shape[1])
    # Rounding may leave a direction without curvature; along it there is nothing to gain.
    lift = EPS * np.trace(curve, axis1=1, axis2=2) + _TINY
    curve[:, diagonal, diagonal] += lift[:, None]
    step = -solve_symmetric(curve, g[:, :, None])[:, :, 0]
    moved = excess.scores(step)
    along = (g * step).sum(axis=1)
    change = np.abs(np.where(at.p > _GONE, moved - along[:, None], 0.0)).max(axis=1)
    # What the step leaves of the equations: the part of g that no curvature answers.
    left = np.linalg.norm(lift[:, None] * step, axis=1)
    unanswered = left > 0.1 * np.linalg.norm(g, axis=1) + 64 * excess.noise(at.p)
    change = np.where(unanswered, np.inf, change)
    leap = np.abs(np.where(at.p > _GONE, moved, 0.0)).max(axis=1)
    step /= np.maximum(1.0, leap / _LEAP)[:, None]
    new = backtrack(excess, at, step, np.ones(len(g)), ridge=0.0)
    return new, step, change, -along
