"""The shortest q with f(q) <= t, or the proof that there is none, both by one inequality:

    for all q and lambda:   f(q) >= H(lambda) - ||q|| ||D^T lambda||

So a query that reaches t has norm at least (H(lambda) - t) / ||D^T lambda||, and none exists where
D^T lambda = 0 and H(lambda) > t. The bound is evaluated with its rounding error subtracted.

`_follow_path` follows q(mu) = argmin ||q||^2 / 2 + mu f(q), along which f decreases. The optimum is
q = -mu grad f(q) at the mu where f(q(mu)) = t; the bound is the norm there. A Newton step moves q
and mu together and is damped until ||q||^2 / 2 + mu f(q) decreases. When the bound exceeds `reach`,
the search stops: the solution is distant or does not exist, and hull.py decides which. It also
stops where grad f is no more than rounding: a longer query is then numerically the same.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from attnlab.construct.hull import Infimum, infimum
from attnlab.construct.log_sum_exp import (
    LogSumExp,
    Point,
    backtrack,
    log_sum_and_softmax,
    solve_symmetric,
)
from attnlab.construct.numerics import EPS, Array, entropy, largest_norm, norm

Verdict = Literal["reached", "impossible", "undecided"]

_FAR = 1e3  # rows have length at most 1: for a longer query the convex hull is examined first
_GAP = 1e-6  # a bound closer to the norm than this proves that the query is the shortest
_EQUAL = 1e-13  # two values of f closer than this are equal
_ADJUSTMENTS = 60
_LONGEST = 1e120
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


@dataclass(frozen=True)
class MinNormResult:
    """The shortest `query` that reaches the level, or the `infimum` that shows there is none."""

    verdict: Verdict
    query: Array
    value: float  # f(query)
    bound: float  # no query shorter than this reaches the level
    residual: float  # relative error of the optimality conditions
    infimum: Infimum | None = None

    @property
    def norm(self) -> float:
        """The Euclidean norm of the query."""
        return norm(self.query)

    @property
    def proven(self) -> bool:
        """Whether the bound rules out a shorter query."""
        return self.bound >= (1 - _GAP) * self.norm


def min_norm_query(
    rows: Array, level: float, rounding: float = EPS, known: Infimum | None = None
) -> MinNormResult:
    """min ||q|| subject to log sum exp(rows q) <= level.

    `rounding` is the relative error of a row; `known` is the infimum of f where it is known.
    """
    m, h = rows.shape
    if m == 0 or np.log(m) <= level + 4 * EPS * (1 + abs(level)):
        return MinNormResult("reached", np.zeros(h), float(np.log(m)) if m else -np.inf, 0.0, 0.0)
    size = largest_norm(rows)
    if size == 0:
        return _impossible(rows, level, infimum(rows))
    scaled, span = _reduce(rows / size)
    q, solved = _follow_path(scaled, level, _FAR)
    if solved:
        result = _accept_query(rows, level, span @ q / size)
        if result is not None and result.proven:
            return result
    low = infimum(scaled, rounding) if known is None else _transform(known, size * span.T)
    return _decide(rows, level, low, scaled, span / size)


def _decide(rows: Array, level: float, low: Infimum, scaled: Array, lift: Array) -> MinNormResult:
    """Compare the level with the infimum: return a query, or the proof that there is none.

    `scaled` are the rows in other coordinates, in which `low` is given; lift @ q is a query q here.
    """
    if low.value < level - _EQUAL or not low.sure:
        q, _ = _follow_path(scaled, level, np.inf)
        candidates = [q, *_search_direction(scaled, level, low)]
        results = [_accept_query(rows, level, lift @ q) for q in candidates]
        accepted = [result for result in results if result is not None]
        if accepted:
            return min(accepted, key=lambda result: result.norm)
    low = _transform(low, lift)
    if low.value < level - _EQUAL or not low.sure:
        return replace(_impossible(rows, level, low), verdict="undecided")
    if low.kind == "inside" and low.value <= level + _EQUAL:
        return _result_at(rows, level, low.query, low)
    return _impossible(rows, level, low)


def _search_direction(rows: Array, level: float, low: Infimum) -> Iterator[Array]:
    """Where f crosses the level on the way to an infimum at infinity, by doubling the length."""
    if low.direction is None:
        return
    length = 1.0
    while length < _LONGEST:
        q = low.query + length * low.direction
        if log_sum_and_softmax(rows @ q)[0] <= level:
            yield q
            return
        length *= 2


def _accept_query(rows: Array, level: float, q: Array) -> MinNormResult | None:
    """The result for q with its length adjusted on these rows; None if it misses the level."""
    if not np.isfinite(q).all():
        return None
    result = _result_at(rows, level, _scale_to_level(rows, level, q), None)
    return result if result.value <= level and np.isfinite(result.norm) else None


def _scale_to_level(rows: Array, level: float, q: Array) -> Array:
    """q times the factor close to 1 with which f(q) <= level holds in floating point."""
    for attempt in range(_ADJUSTMENTS):
        f, p = log_sum_and_softmax(rows @ q)
        excess = f - level
        if attempt > 2 and excess <= 0:
            break
        slope = -float(p @ (rows @ q))
        if slope <= 0:
            break
        nudge = 2.0 ** min(attempt - 2, 20) * EPS if attempt > 2 else 0.0
        q = q * (1 + excess / slope + nudge)
    return q


def _result_at(rows: Array, level: float, q: Array, low: Infimum | None) -> MinNormResult:
    """A query that reaches the level; `low` is given where the level is the infimum itself."""
    f, p = log_sum_and_softmax(rows @ q)
    g = p @ rows
    length, slope = norm(q), norm(g)
    error = np.linalg.norm(q / length + g / slope) if length and slope else 1.0
    if low is not None:
        error = 0.0 if length == 0 else slope / largest_norm(rows)  # the gradient vanishes there
    residual = float(max(error, abs(f - level)))
    return MinNormResult("reached", q, f, _norm_bound(rows, level, p), residual, low)


def _impossible(rows: Array, level: float, low: Infimum) -> MinNormResult:
    """No query reaches the level: the best one, or where the way to the infimum begins."""
    f, _ = log_sum_and_softmax(rows @ low.query)
    bound = _norm_bound(rows, level, low.weights)
    return MinNormResult("impossible", low.query, f, bound, low.change, low)


def _norm_bound(rows: Array, level: float, p: Array) -> float:
    """(H(p) - t) / ||D^T p||, rounded downwards: the error of m terms is eps / 2 each."""
    rounding = (int((p > 0).sum()) + 4) * EPS
    h = entropy(p)
    size = norm(p @ rows) + rounding * float(p @ np.linalg.norm(rows, axis=1))
    excess = h - rounding * (1 + h) - level
    return max(excess, 0.0) / size if size > 0 else np.inf if excess > 0 else 0.0


def _reduce(rows: Array) -> tuple[Array, Array]:
    """Coordinates in the span of the rows where they are fewer than dimensions, and the span."""
    m, h = rows.shape
    if m >= h:
        return rows, np.eye(h)
    span = np.linalg.qr(rows.T)[0]
    return rows @ span, span


def _transform(low: Infimum, matrix: Array) -> Infimum:
    """The infimum with its query and direction in other coordinates."""
    direction = None if low.direction is None else matrix @ low.direction
    return replace(low, query=matrix @ low.query, direction=direction)


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


def _follow_path(rows: Array, level: float, reach: float) -> tuple[Array, bool]:
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
    gap = np.linalg.norm(q + path.mu * g) / max(norm(q), _LEAST)
    path.error = max(float(gap), abs(f - level) / max(1.0, abs(level)))
    path.idle = 0 if path.error < 0.5 * path.least else path.idle + 1
    path.least = min(path.error, path.least)
    # H(p) = f - g . q: no query shorter than (H(p) - t) / ||D^T p|| reaches the level.
    size = norm(g)
    excess = f - float((g * q).sum()) - level
    path.far = size <= objective.noise(p) or excess > reach * size
