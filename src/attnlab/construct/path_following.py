"""min ||q|| subject to f(q) <= t: Newton along the path q(mu) = argmin ||q||^2 / 2 + mu f(q).

The optimum is q = -mu grad f(q) at the mu where f(q(mu)) = t; f falls along the path. One step
moves q and mu together; it is damped until ||q||^2 / 2 + mu f(q) falls. For every distribution p

    ||q|| >= (H(p) - t) / ||D^T p||        (excess.py)

for any q with f(q) <= t. At the optimum this is an equality; when it passes `reach` the search
stops: the answer is far away or there is none, and hull.py decides which. It also stops where
grad f is no more than rounding: a longer query could not be told from this one.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.log_sum_exp import (
    Array,
    Indices,
    LogSumExp,
    Point,
    backtrack,
    evaluate,
    solve_symmetric,
)

_STEPS = 200
_DONE = 1e-11  # of the conditions, relative; the norm's own error is of second order in it
_NEAR = 1e-6  # and here rounding may end the progress
_PATIENCE = 4
_CENTRED = 0.1  # squared Newton decrement below which mu may move: one step then centres q again
_SEEN = 1e-9  # a weight below this moves nothing
_EXPONENT = 500.0
_CLEAR = 0.1  # a value this far from t tells on which side of the optimum mu is
_LEAST = 1e-250  # of what is divided by
_MOST = 1e120  # of mu: its square is still a double
_FIRST = 1e3  # mu to start with, at most
_FALL, _RISE = 0.1, 100.0  # what mu may change by in one step


@dataclass
class Path:
    """Where each problem stands: q(mu), f and p there, and what is left of the two conditions."""

    q: Array
    f: Array
    p: Array
    mu: Array
    low: Array
    high: Array
    error: Array
    least: Array
    idle: Array
    far: NDArray[np.bool_]

    def take(self, keep: Indices) -> Path:
        """Some of the problems."""
        return Path(**{part.name: getattr(self, part.name)[keep] for part in fields(self)})

    def put(self, where: Indices, some: Path) -> None:
        """Write some of the problems back."""
        for part in fields(self):
            getattr(self, part.name)[where] = getattr(some, part.name)

    @property
    def solved(self) -> NDArray[np.bool_]:
        """Whether both conditions hold as nearly as rounding lets them."""
        return ~self.far & (self.error < _NEAR)


def follow_path(excess: LogSumExp, level: Array, q: Array, reach: float) -> Path:
    """The shortest q with f(q) = level, one a problem, from a guess q (zero will do)."""
    path = _start(excess, level, q)
    active = np.flatnonzero(~path.far)
    for _ in range(_STEPS):
        if not active.size:
            break
        part, here = path.take(active), excess.take(active)
        _advance(here, part, level[active])
        _judge(here, part, level[active], reach)
        path.put(active, part)
        stuck = (part.error < _NEAR) & (part.idle >= _PATIENCE)
        active = active[~((part.error < _DONE) | stuck | part.far)]
    return path


def _start(excess: LogSumExp, level: Array, q: Array) -> Path:
    """mu that fits q, or where q is zero the mu that the bound's own maximum over mu suggests."""
    at = evaluate(excess, q)
    g = excess.mean(at.p)
    size, steep = len(q), (g * g).sum(axis=1)
    flat = steep == 0  # the rows' mean is zero: the hull holds the wanted key, and no mu helps
    steep[flat] = 1.0
    lead = at.f - (g * q).sum(axis=1) - level
    length = np.sqrt((q * q).sum(axis=1))
    mu = np.where(length > 0, length / np.sqrt(steep), np.clip(lead / steep, 1e-6, _FIRST))
    high, error, least = np.full((3, size), np.inf)
    low, idle = np.zeros((2, size))
    return Path(*at, mu, low, high, error, least, idle, flat)


def _advance(excess: LogSumExp, path: Path, level: Array) -> None:
    """q and mu by one Newton step on (q + mu grad f, f - t) = 0, mu held until q is centred."""
    g = excess.mean(path.p)
    matrix = path.mu[:, None, None] * excess.covariance(path.p, g)
    diagonal = np.arange(g.shape[1])
    matrix[:, diagonal, diagonal] += 1
    off = path.q + path.mu[:, None] * g
    a, b = np.moveaxis(solve_symmetric(matrix, np.stack([off, g], axis=-1)), -1, 0)
    centred = (off * a).sum(axis=1) < _CENTRED * path.mu
    centred &= _span(path.p, excess.scores(a) - (g * a).sum(axis=1)[:, None]) < 1
    miss = path.f - (g * a).sum(axis=1) - level
    path.low = np.where(centred & (miss > _CLEAR), np.maximum(path.low, path.mu), path.low)
    path.high = np.where(centred & (miss < -_CLEAR), np.minimum(path.high, path.mu), path.high)
    slope = np.maximum((g * b).sum(axis=1), _LEAST)
    mu = np.where(centred, _next(path, miss / slope), path.mu)
    step = -a - (mu - path.mu)[:, None] * b
    path.q, path.f, path.p = backtrack(excess, Point(path.q, path.f, path.p), step, mu, ridge=1.0)
    path.mu = mu


def _span(p: Array, moved: Array) -> Array:
    """The largest change of a score among rows that have weight, or would have after it."""
    seen = (p > _SEEN) | (p * np.exp(np.clip(-moved, -_EXPONENT, _EXPONENT)) > _SEEN)
    return np.abs(np.where(seen, moved, 0.0)).max(axis=1)


def _next(path: Path, change: Array) -> Array:
    """Newton's mu, kept between those known to be too small and too large."""
    mu = np.clip(path.mu + change, _FALL * path.mu, _RISE * path.mu)
    closed = (path.low > 0) & np.isfinite(path.high)
    outside = closed & ((mu <= path.low) | (mu >= path.high))
    middle = np.sqrt(path.low * np.where(closed, path.high, 0.0))
    return np.minimum(np.where(outside, middle, mu), _MOST)


def _judge(excess: LogSumExp, path: Path, level: Array, reach: float) -> None:
    """What is left of the conditions, and whether the bound on the norm has passed `reach`."""
    g = excess.mean(path.p)
    off = np.linalg.norm(path.q + path.mu[:, None] * g, axis=1)
    length = np.linalg.norm(path.q, axis=1)
    off = off / np.maximum(length, _LEAST)
    error = np.maximum(off, np.abs(path.f - level) / np.maximum(1.0, np.abs(level)))
    path.idle = np.where(error < 0.5 * path.least, 0.0, path.idle + 1)
    path.error, path.least = error, np.minimum(error, path.least)
    lost = np.linalg.norm(g, axis=1) <= excess.noise(path.p)
    path.far = lost | (norm_lower_bound(path.f, g, path.q, level) > reach)


def norm_lower_bound(f: Array, g: Array, q: Array, level: Array) -> Array:
    """(H(p) - t) / ||D^T p||, H(p) = f - g . q: no shorter query reaches the level."""
    size = np.linalg.norm(g, axis=1)
    lead = f - (g * q).sum(axis=1) - level
    return np.divide(lead, size, out=np.full_like(lead, np.inf), where=size > 0)
