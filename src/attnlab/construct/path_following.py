"""min ||q|| subject to f(q) <= t, by following the path q(mu) = argmin ||q||^2 / 2 + mu f(q).

The optimum is q = -mu grad f(q) at the mu where f(q(mu)) = t; f decreases along the path. A Newton
step moves q and mu together and is damped until ||q||^2 / 2 + mu f(q) decreases. For every
distribution p, any q with f(q) <= t satisfies (log_sum_exp.py)

    ||q|| >= (H(p) - t) / ||D^T p||

with equality at the optimum. When this bound exceeds `reach`, the search stops: the solution is
distant or does not exist, and hull.py decides which. It also stops where grad f is no more than
rounding: a longer query could not be told from this one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from attnlab.construct.log_sum_exp import LogSumExp, Point, backtrack, solve_symmetric
from attnlab.construct.numerics import Array

_STEPS = 200
_DONE = 1e-11  # relative error of the conditions; the error of the norm is of second order in it
_NEAR = 1e-6  # an error at which rounding may end the progress
_PATIENCE = 4
_CENTRED = 0.1  # squared Newton decrement below which mu may move: one step then centres q again
_VISIBLE = 1e-9  # a weight below this changes nothing
_EXPONENT = 500.0
_CLEAR = 0.1  # a value this far from t tells on which side of the optimum mu is
_LEAST = 1e-250  # smallest divisor
_MOST = 1e120  # largest mu: its square is still a double
_FIRST = 1e3  # largest mu to start with
_FALL, _RISE = 0.1, 100.0  # limits of the factor by which a step changes mu


@dataclass
class _Path:
    """The point q(mu), a bracket of the wanted mu, and the error of the optimality conditions.

    `idle` counts steps without progress; `far` says that the norm bound exceeds `reach`.
    """

    at: Point
    mu: float
    low: float = 0.0
    high: float = math.inf
    error: float = math.inf
    least: float = math.inf
    idle: int = 0
    far: bool = False


def follow_path(rows: Array, level: float, reach: float) -> tuple[Array, bool]:
    """(q, solved): the shortest q with f(q) = level, or where the search for it stopped."""
    objective = LogSumExp(rows)
    at = objective.at(np.zeros(rows.shape[1]))
    g = objective.gradient(at.p)
    square = float((g * g).sum())
    if square == 0:  # the mean of the rows is zero: the hull contains the wanted key
        return at.q, False
    # The mu that maximises the lower bound at q = 0.
    path = _Path(at, mu=float(np.clip((at.f - level) / square, 1e-6, _FIRST)))
    for _ in range(_STEPS):
        _advance(objective, path, level)
        _measure(objective, path, level, reach)
        stuck = path.error < _NEAR and path.idle >= _PATIENCE
        if path.error < _DONE or stuck or path.far:
            break
    return path.at.q, not path.far and path.error < _NEAR


def _advance(objective: LogSumExp, path: _Path, level: float) -> None:
    """A Newton step on (q + mu grad f, f - t) = 0; mu stays until q is centred on the path."""
    q, f, p = path.at
    g = objective.gradient(p)
    matrix = path.mu * objective.hessian(p, g)
    matrix[np.diag_indices_from(matrix)] += 1
    gradient = q + path.mu * g
    a, b = solve_symmetric(matrix, np.stack([gradient, g], axis=-1)).T
    along = float((g * a).sum())
    excess = f - along - level
    mu = path.mu
    if (gradient * a).sum() < _CENTRED * mu and _largest_move(p, objective.rows @ a - along) < 1:
        if excess > _CLEAR:
            path.low = max(path.low, mu)
        elif excess < -_CLEAR:
            path.high = min(path.high, mu)
        mu = _next_mu(path, excess / max(float((g * b).sum()), _LEAST))
    step = -a - (mu - path.mu) * b
    path.at, path.mu = backtrack(objective, path.at, step, mu, ridge=1.0), mu


def _largest_move(p: Array, moves: Array) -> float:
    """The largest change of a score among rows that have weight before or after it."""
    visible = (p > _VISIBLE) | (p * np.exp(np.clip(-moves, -_EXPONENT, _EXPONENT)) > _VISIBLE)
    return float(np.abs(np.where(visible, moves, 0.0)).max())


def _next_mu(path: _Path, change: float) -> float:
    """Newton's mu, kept inside the bracket of values known to be too small and too large."""
    mu = min(max(path.mu + change, _FALL * path.mu), _RISE * path.mu)
    closed = path.low > 0 and math.isfinite(path.high)
    if closed and not path.low < mu < path.high:
        mu = math.sqrt(path.low * path.high)
    return min(mu, _MOST)


def _measure(objective: LogSumExp, path: _Path, level: float, reach: float) -> None:
    """Update the error of the conditions, and whether the norm bound exceeds `reach`."""
    q, f, p = path.at
    g = objective.gradient(p)
    gap = np.linalg.norm(q + path.mu * g) / max(float(np.linalg.norm(q)), _LEAST)
    path.error = max(float(gap), abs(f - level) / max(1.0, abs(level)))
    path.idle = 0 if path.error < 0.5 * path.least else path.idle + 1
    path.least = min(path.error, path.least)
    # H(p) = f - g . q: no query shorter than (H(p) - t) / ||D^T p|| reaches the level.
    size = float(np.linalg.norm(g))
    excess = f - float((g * q).sum()) - level
    path.far = size <= objective.noise(p) or excess > reach * size
