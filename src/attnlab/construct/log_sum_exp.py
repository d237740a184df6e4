"""The objective of every construction: f(q) = log sum_i exp(d_i . q), d_i = scale (k_i - k_wanted).

The weight on a wanted key is 1 / (1 + e^f), so a weight w needs f(q) <= log(1/w - 1). The gradient
of f is the mean of the d_i under p = softmax(D q), its Hessian their covariance, and for every
distribution lambda over the rows (Gibbs' inequality)

    f(q) >= lambda . D q + H(lambda) >= H(lambda) - ||q|| ||D^T lambda||

with equality on the left at lambda = p: this one inequality bounds every norm and every weight.

Does Newton's method on f converge, or run off to infinity? With y = -C^-1 g the step,
lambda_i (1 + (d_i - g) . y) satisfies sum lambda_i d_i = 0 exactly. So a step that changes every
score by less than 1 proves that 0 lies inside the convex hull of the rows. Otherwise every step
lowers the scores off the smallest face that contains 0 by about 1, forever.
"""

from typing import NamedTuple

import numpy as np

from attnlab.construct.numerics import EPS, Array

_TINY = 1e-280  # below it a square root or a quotient loses digits
_ARMIJO = 1e-4
_HALVINGS = 40
_ROUNDING = 2.0**-46  # an increase of the objective below this share of it counts as rounding
BELOW = 1e-3  # f below zero by this: q itself has d_i . q < 0 for every row, as H(lambda) >= 0
HALF = 0.5  # a step lowers scores off the face by 1 and those on it by 0
ROUNDED = 1e-4  # a change this small that no longer shrinks is rounding
_STEPS = 120
_DONE = 1e-10  # change of a score in the last step; the next one would be its square
_PATIENCE = 4
_DIVERGED = 1e-13  # squared decrement by which Newton would have converged to an interior point
_LONGEST_STEP = 50.0  # largest change of a score in a step: e^50 exceeds any weight that matters
_NEGLIGIBLE = 1e-200  # a weight that counts as zero


class Point(NamedTuple):
    """A query with f and p = softmax(D q) at it."""

    q: Array
    f: float
    p: Array


class LogSumExp:
    """f for the rows d_i."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.sizes = np.linalg.norm(rows, axis=1)

    def at(self, q: Array) -> Point:
        """Evaluate f and p at q."""
        return Point(q, *log_sum_and_softmax(self.rows @ q))

    def gradient(self, p: Array) -> Array:
        """sum_i p_i d_i."""
        return p @ self.rows

    def hessian(self, p: Array, gradient: Array) -> Array:
        """The covariance of the rows as a Gram matrix, which has no negative eigenvalue."""
        root = np.sqrt(p)[:, None] * (self.rows - gradient)
        return root.T @ root

    def noise(self, p: Array) -> float:
        """eps sum_i p_i ||d_i||: a gradient smaller than this is only rounding."""
        return EPS * float(p @ self.sizes)


def log_sum_and_softmax(scores: Array) -> tuple[float, Array]:
    """f = log sum exp and p = softmax of the scores."""
    top = scores.max()
    p = np.exp(scores - top)
    total = p.sum()
    return float(top + np.log(total)), p / total


def backtrack(objective: LogSumExp, at: Point, step: Array, mu: float, ridge: float) -> Point:
    """Armijo line search: halve the step until ridge ||q||^2 / 2 + mu f(q) decreases.

    If it never decreases, `at` is returned.
    """

    def value(point: Point) -> float:
        return 0.5 * ridge * float((point.q * point.q).sum()) + mu * point.f

    slope = ridge * (at.q * step).sum() + mu * (objective.gradient(at.p) * step).sum()
    start = value(at)
    allowed = start + _ROUNDING * (abs(start) + mu * abs(at.f))
    length = 1.0
    for _ in range(_HALVINGS):
        trial = objective.at(at.q + length * step)
        if value(trial) <= allowed + _ARMIJO * length * slope:
            return trial
        length *= 0.5
    return at


def solve_symmetric(matrix: Array, columns: Array) -> Array:
    """Solve matrix x = columns for a symmetric matrix, scaled first to a unit diagonal."""
    root = np.sqrt(np.maximum(np.diagonal(matrix), _TINY))[:, None]
    scaled = matrix / (root * root.T)
    try:
        return np.linalg.solve(scaled, columns / root) / root
    except np.linalg.LinAlgError:  # rounding left a direction without curvature
        scaled[np.diag_indices_from(scaled)] += 4 * EPS * len(scaled)
        return np.linalg.solve(scaled, columns / root) / root


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
    damping = EPS * np.trace(hessian) + float(np.finfo(np.float64).tiny)
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
