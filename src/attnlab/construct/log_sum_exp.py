"""The objective of every construction: f(q) = log sum_i exp(d_i . q), d_i = scale (k_i - k_wanted).

The weight on a wanted key is 1 / (1 + e^f), so a weight w needs f(q) <= log(1/w - 1). The gradient
of f is the mean of the d_i under p = softmax(D q), its Hessian their covariance, and for every
distribution lambda over the rows (Gibbs' inequality)

    f(q) >= lambda . D q + H(lambda) >= H(lambda) - ||q|| ||D^T lambda||

with equality on the left at lambda = p: this one inequality bounds every norm and every weight.

Many problems are solved side by side: arrays have the axes (problem, row) and (problem, dim).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from attnlab.construct.numerics import EPS, Array, Indices

_TINY = 1e-280  # below it a square root or a quotient loses digits
_PRODUCTS = 5_000_000  # products k_a k_b kept at once: 40 MB
_ARMIJO = 1e-4
_HALVINGS = 40
_ROUNDING = 2.0**-46  # an increase of the objective below this share of it counts as rounding


class LogSumExp(Protocol):
    """The rows d_i of one problem or many; every method takes one q (or p) per problem."""

    def scores(self, q: Array) -> Array:
        """d_i . q for every row."""
        ...

    def mean(self, p: Array) -> Array:
        """sum_i p_i d_i: the gradient of f where p = softmax(D q)."""
        ...

    def covariance(self, p: Array, mean: Array) -> Array:
        """sum_i p_i (d_i - mean) (d_i - mean)^T: the Hessian of f."""
        ...

    def noise(self, p: Array) -> Array:
        """eps sum_i p_i ||d_i||: a mean smaller than this is only rounding."""
        ...

    def take(self, keep: Indices) -> LogSumExp:
        """The same objective for some of the problems."""
        ...


class SingleProblem:
    """One problem with its rows stored, so that no digits are lost to cancellation."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.sizes = np.linalg.norm(rows, axis=1)

    def scores(self, q: Array) -> Array:
        """d_i . q for every row."""
        return q @ self.rows.T

    def mean(self, p: Array) -> Array:
        """sum_i p_i d_i."""
        return p @ self.rows

    def covariance(self, p: Array, mean: Array) -> Array:
        """The covariance as a Gram matrix, which cannot have a negative eigenvalue."""
        root = np.sqrt(p[0])[:, None] * (self.rows - mean)
        return (root.T @ root)[None]

    def noise(self, p: Array) -> Array:
        """eps sum_i p_i ||d_i||."""
        return EPS * (p @ self.sizes)

    def take(self, keep: Indices) -> SingleProblem:
        """This object: there is only one problem to take."""
        return self


class SharedKeys:
    """Problem b wants key index[b] among the same keys of length <= 1: d_i = k_i - k_wanted."""

    def __init__(self, keys: Array, index: Indices, products: Array | None = None) -> None:
        self.keys, self.index = keys, index
        self.wanted = keys[index]
        self.upper = np.triu_indices(keys.shape[1])
        if products is None and len(keys) * len(self.upper[0]) <= _PRODUCTS:
            products = keys[:, self.upper[0]] * keys[:, self.upper[1]]
        self.products = products

    def scores(self, q: Array) -> Array:
        """d_i . q; minus infinity for the wanted key itself, which is not a row."""
        scores = q @ self.keys.T
        scores -= (q * self.wanted).sum(axis=1)[:, None]
        scores[np.arange(len(q)), self.index] = -np.inf
        return scores

    def mean(self, p: Array) -> Array:
        """sum_i p_i k_i - k_wanted."""
        return p @ self.keys - self.wanted

    def covariance(self, p: Array, mean: Array) -> Array:
        """E k k^T - (E k)(E k)^T, by one matrix product for all problems if the products fit."""
        h = self.keys.shape[1]
        centre = mean + self.wanted
        second = np.empty((len(p), h, h))
        if self.products is None:
            for b, weights in enumerate(p):
                second[b] = (self.keys * weights[:, None]).T @ self.keys
        else:
            moments = p @ self.products
            second[:, self.upper[0], self.upper[1]] = moments
            second[:, self.upper[1], self.upper[0]] = moments
        return second - centre[:, :, None] * centre[:, None, :]

    def noise(self, p: Array) -> Array:
        """4 eps: neither the keys nor what is subtracted from them exceeds length one."""
        return np.full(len(p), 4 * EPS)

    def take(self, keep: Indices) -> SharedKeys:
        """The same keys for some of the problems."""
        return SharedKeys(self.keys, self.index[keep], self.products)


def log_sum_and_softmax(scores: Array) -> tuple[Array, Array]:
    """f = log sum exp and p = softmax of each row of scores."""
    top = scores.max(axis=1, keepdims=True)
    p = np.exp(scores - top)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    return (top + np.log(total))[:, 0], p


class Point(NamedTuple):
    """One query per problem, with f and p = softmax(D q) at it."""

    q: Array
    f: Array
    p: Array


def evaluate(objective: LogSumExp, q: Array) -> Point:
    """The point at q."""
    return Point(q, *log_sum_and_softmax(objective.scores(q)))


def backtrack(objective: LogSumExp, at: Point, step: Array, mu: Array, ridge: float) -> Point:
    """Armijo line search: halve each step until ridge ||q||^2 / 2 + mu f(q) decreases.

    A problem whose objective never decreases stays where it is.
    """
    q, f, _ = at
    slope = ridge * (q * step).sum(axis=1) + mu * (objective.mean(at.p) * step).sum(axis=1)
    start = 0.5 * ridge * (q * q).sum(axis=1) + mu * f
    allowed = start + _ROUNDING * (np.abs(start) + mu * np.abs(f))
    new = Point(q.copy(), f.copy(), at.p.copy())
    length, active = np.ones(len(q)), np.arange(len(q))
    for _ in range(_HALVINGS):
        trial = evaluate(objective.take(active), q[active] + length[active, None] * step[active])
        value = 0.5 * ridge * (trial.q * trial.q).sum(axis=1) + mu[active] * trial.f
        accepted = value <= allowed[active] + _ARMIJO * length[active] * slope[active]
        for into, part in zip(new, trial, strict=True):
            into[active[accepted]] = part[accepted]
        active = active[~accepted]
        if not active.size:
            break
        length[active] *= 0.5
    return new


def solve_symmetric(matrix: Array, columns: Array) -> Array:
    """Solve matrix x = columns for symmetric matrices, scaled first to a unit diagonal."""
    root = np.sqrt(np.maximum(np.diagonal(matrix, axis1=1, axis2=2), _TINY))[:, :, None]
    scaled = matrix / (root * np.swapaxes(root, 1, 2))
    try:
        return np.linalg.solve(scaled, columns / root) / root
    except np.linalg.LinAlgError:  # rounding left a direction without curvature
        diagonal = np.arange(matrix.shape[1])
        scaled[:, diagonal, diagonal] += 4 * EPS * len(diagonal)
        return np.linalg.solve(scaled, columns / root) / root
