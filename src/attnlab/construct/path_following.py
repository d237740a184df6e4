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

from dataclasses import dataclass, fields

import numpy as np

from attnlab.construct.log_sum_exp import LogSumExp, Point, backtrack, evaluate, solve_symmetric
from attnlab.construct.numerics import Array, Indices, Mask

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
class Path:
    """The state of each problem: q(mu) with f and p, a bracket of mu, the error of the conditions.

    `far` marks problems whose norm bound exceeds `reach`; `idle` counts steps without progress.
    """

    q: Array
    f: Array
    p: Array
    mu: Array
    low: Array
    high: Array
    error: Array
    least: Array
    idle: Array
    far: Mask

    def take(self, keep: Indices) -> Path:
        """The state of some of the problems."""
        return Path(**{part.name: getattr(self, part.name)[keep] for part in fields(self)})

    def put(self, where: Indices, some: Path) -> None:
        """Write the state of some of the problems back."""
        for part in fields(self):
            getattr(self, part.name)[where] = getattr(some, part.name)

    @property
    def solved(self) -> Mask:
        """Whether both conditions hold as closely as rounding allows."""
        return ~self.far & (self.error < _NEAR)


def follow_path(objective: LogSumExp, level: Array, q: Array, reach: float) -> Path:
    """The shortest q with f(q) = level for each problem, from a first guess q (zero will do)."""
    path = _start(objective, level, q)
    active = np.flatnonzero(~path.far)
    for _ in range(_STEPS):
        if not active.size:
            break
        part, here = path.take(active), objective.take(active)
        _advance(here, part, level[active])
        _measure(here, part, level[active], reach)
        path.put(active, part)
        stuck = (part.error < _NEAR) & (part.idle >= _PATIENCE)
        active = active[~((part.error < _DONE) | stuck | part.far)]
    return path


def _start(objective: LogSumExp, level: Array, q: Array) -> Path:
    """The mu that fits q or, where q is zero, the mu that maximises the lower bound."""
    at = evaluate(objective, q)
    g = objective.mean(at.p)
    size, square = len(q), (g * g).sum(axis=1)
    flat = square == 0  # the mean of the rows is zero: the hull contains the wanted key
    square[flat] = 1.0
    excess = at.f - (g * q).sum(axis=1) - level
    length = np.sqrt((q * q).sum(axis=1))
    mu = np.where(length > 0, length / np.sqrt(square), np.clip(excess / square, 1e-6, _FIRST))
    high, error, least = np.full((3, size), np.inf)
    low, idle = np.zeros((2, size))
    return Path(*at, mu, low, high, error, least, idle, flat)


def _advance(objective: LogSumExp, path: Path, level: Array) -> None:
    """A Newton step on (q + mu grad f, f - t) = 0; mu stays until q is centred on the path."""
    g = objective.mean(path.p)
    matrix = path.mu[:, None, None] * objective.covariance(path.p, g)
    diagonal = np.arange(g.shape[1])
    matrix[:, diagonal, diagonal] += 1
    gradient = path.q + path.mu[:, None] * g
    a, b = np.moveaxis(solve_symmetric(matrix, np.stack([gradient, g], axis=-1)), -1, 0)
    centred = (gradient * a).sum(axis=1) < _CENTRED * path.mu
    centred &= _largest_move(path.p, objective.scores(a) - (g * a).sum(axis=1)[:, None]) < 1
    excess = path.f - (g * a).sum(axis=1) - level
    path.low = np.where(centred & (excess > _CLEAR), np.maximum(path.low, path.mu), path.low)
    path.high = np.where(centred & (excess < -_CLEAR), np.minimum(path.high, path.mu), path.high)
    slope = np.maximum((g * b).sum(axis=1), _LEAST)
    mu = np.where(centred, _next_mu(path, excess / slope), path.mu)
    step = -a - (mu - path.mu)[:, None] * b
    path.q, path.f, path.p = backtrack(
        objective, Point(path.q, path.f, path.p), step, mu, ridge=1.0
    )
    path.mu = mu


def _largest_move(p: Array, moves: Array) -> Array:
    """The largest change of a score among rows that have weight before or after it."""
    visible = (p > _VISIBLE) | (p * np.exp(np.clip(-moves, -_EXPONENT, _EXPONENT)) > _VISIBLE)
    return np.abs(np.where(visible, moves, 0.0)).max(axis=1)


def _next_mu(path: Path, change: Array) -> Array:
    """Newton's mu, kept inside the bracket of values known to be too small and too large."""
    mu = np.clip(path.mu + change, _FALL * path.mu, _RISE * path.mu)
    closed = (path.low > 0) & np.isfinite(path.high)
    outside = closed & ((mu <= path.low) | (mu >= path.high))
    middle = np.sqrt(path.low * np.where(closed, path.high, 0.0))
    return np.minimum(np.where(outside, middle, mu), _MOST)


def _measure(objective: LogSumExp, path: Path, level: Array, reach: float) -> None:
    """Update the error of the conditions, and mark problems whose norm bound exceeds `reach`."""
    g = objective.mean(path.p)
    gap = np.linalg.norm(path.q + path.mu[:, None] * g, axis=1)
    length = np.linalg.norm(path.q, axis=1)
    gap = gap / np.maximum(length, _LEAST)
    error = np.maximum(gap, np.abs(path.f - level) / np.maximum(1.0, np.abs(level)))
    path.idle = np.where(error < 0.5 * path.least, 0.0, path.idle + 1)
    path.error, path.least = error, np.minimum(error, path.least)
    rounding = np.linalg.norm(g, axis=1) <= objective.noise(path.p)
    path.far = rounding | (_norm_bound(path.f, g, path.q, level) > reach)


def _norm_bound(f: Array, g: Array, q: Array, level: Array) -> Array:
    """(H(p) - t) / ||D^T p|| with H(p) = f - g . q: no shorter query reaches the level."""
    size = np.linalg.norm(g, axis=1)
    excess = f - (g * q).sum(axis=1) - level
    return np.divide(excess, size, out=np.full_like(excess, np.inf), where=size > 0)
