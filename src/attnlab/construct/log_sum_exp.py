"""The objective of every construction: f(q) = log sum_i exp(d_i . q), d_i = scale (k_i - k_wanted).

The weight on a wanted key is 1 / (1 + e^f), so a weight w needs f(q) <= log(1/w - 1). The gradient
of f is the mean of the d_i under p = softmax(D q), its Hessian their covariance, and for every
distribution lambda over the rows (Gibbs' inequality)

    f(q) >= lambda . D q + H(lambda) >= H(lambda) - ||q|| ||D^T lambda||

with equality on the left at lambda = p: this one inequality bounds every norm and every weight.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnlab.construct.numerics import EPS, Array

_TINY = 1e-280  # below it a square root or a quotient loses digits
_ARMIJO = 1e-4
_HALVINGS = 40
_ROUNDING = 2.0**-46  # an increase of the objective below this share of it counts as rounding


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
