"""f(q) = log sum_i exp(d_i . q), d_i = scale (k_i - k_wanted): what every construction is about.

The weight on a wanted key is 1 / (1 + e^f), so a weight w asks for f(q) <= log(1/w - 1). The
gradient of f is the mean of the d_i under p = softmax(D q), the Hessian their covariance, and for
every distribution lambda over the rows (Gibbs)

    f(q) >= lambda . D q + H(lambda) >= H(lambda) - ||q|| ||D^T lambda||

with equality on the left at lambda = p: one inequality bounds every norm and every weight here.

Many problems are solved side by side: arrays are (problem, row) and (problem, dim).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

EPS = float(np.finfo(np.float64).eps)
_TINY = 1e-280  # below it a square root or a quotient loses digits
_PRODUCTS = 5_000_000  # k_a k_b kept at once: 40 MB
_ARMIJO = 1e-4
_HALVINGS = 40
_ROUNDING = 2.0**-46  # a rise of the objective below this share of it is no rise


class LogSumExp(Protocol):
    """Rows d_i of one problem or many; every method takes one q (or p) a problem."""

    def scores(self, q: Array) -> Array:
        """d_i . q."""
        ...

    def mean(self, p: Array) -> Array:
        """sum_i p_i d_i."""
        ...

    def covariance(self, p: Array, mean: Array) -> Array:
        """sum_i p_i (d_i - mean) (d_i - mean)^T."""
        ...

    def noise(self, p: Array) -> Array:
        """eps sum_i p_i ||d_i||: a mean smaller than this is rounding."""
        ...

    def take(self, keep: Indices) -> LogSumExp:
        """The same for some of the problems."""
        ...


class SingleProblem:
    """One problem, its rows written out: nothing is lost to cancellation."""

    def __init__(self, rows: Array) -> None:
        self.rows = rows
        self.sizes = np.linalg.norm(rows, axis=1)

    def scores(self, q: Array) -> Array:
        """d_i . q."""
        return q @ self.rows.T

    def mean(self, p: Array) -> Array:
        """sum_i p_i d_i."""
        return p @ self.rows

    def covariance(self, p: Array, mean: Array) -> Array:
        """As a Gram matrix, so that it has no negative direction."""
        root = np.sqrt(p[0])[:, None] * (self.rows - mean)
        return (root.T @ root)[None]

    def noise(self, p: Array) -> Array:
        """eps sum_i p_i ||d_i||."""
        return EPS * (p @ self.sizes)

    def take(self, keep: Indices) -> SingleProblem:
        """There is only one."""
        return self


class SharedKeys:
    """Problem b wants key index[b] among the same keys, of size 1 at most: d_i = k_i - k_wanted."""

    def __init__(self, keys: Array, index: Indices, products: Array | None = None) -> None:
        self.keys, self.index = keys, index
        self.own = keys[index]
        self.upper = np.triu_indices(keys.shape[1])
        if products is None and len(keys) * len(self.upper[0]) <= _PRODUCTS:
            products = keys[:, self.upper[0]] * keys[:, self.upper[1]]
        self.products = products

    def scores(self, q: Array) -> Array:
        """d_i . q; the wanted key itself is no row: minus infinity."""
        scores = q @ self.keys.T
        scores -= (q * self.own).sum(axis=1)[:, None]
        scores[np.arange(len(q)), self.index] = -np.inf
        return scores

    def mean(self, p: Array) -> Array:
        """sum_i p_i k_i - k_wanted."""
        return p @ self.keys - self.own

    def covariance(self, p: Array, mean: Array) -> Array:
        """E k k^T - (E k)(E k)^T: one matrix product for all problems where the products fit."""
        h = self.keys.shape[1]
        centre = mean + self.own
        found = np.empty((len(p), h, h))
        if self.products is None:
            for b, weights in enumerate(p):
                found[b] = (self.keys * weights[:, None]).T @ self.keys
        else:
            moments = p @ self.products
            found[:, self.upper[0], self.upper[1]] = moments
            found[:, self.upper[1], self.upper[0]] = moments
        return found - centre[:, :, None] * centre[:, None, :]

    def noise(self, p: Array) -> Array:
        """The keys are of size one at most, and so is what is subtracted."""
        return np.full(len(p), 4 * EPS)

    def take(self, keep: Indices) -> SharedKeys:
        """The same keys for some of the problems."""
        return SharedKeys(self.keys, self.index[keep], self.products)


def log_sum_and_softmax(scores: Array) -> tuple[Array, Array]:
    """f and p = softmax(scores), a row a problem."""
    top = scores.max(axis=1, keepdims=True)
    p = np.exp(scores - top)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    return (top + np.log(total))[:, 0], p


class Point(NamedTuple):
    """A query a problem, with f and p there."""

    q: Array
    f: Array
    p: Array


def evaluate(excess: LogSumExp, q: Array) -> Point:
    """f and p at q."""
    return Point(q, *log_sum_and_softmax(excess.scores(q)))


def backtrack(excess: LogSumExp, at: Point, step: Array, mu: Array, ridge: float) -> Point:
    """Each step halved until ridge ||q||^2 / 2 + mu f(q) falls (Armijo); none if it never does."""
    q, f, _ = at
    slope = ridge * (q * step).sum(axis=1) + mu * (excess.mean(at.p) * step).sum(axis=1)
    start = 0.5 * ridge * (q * q).sum(axis=1) + mu * f
    allowed = start + _ROUNDING * (np.abs(start) + mu * np.abs(f))
    new = Point(q.copy(), f.copy(), at.p.copy())
    length, todo = np.ones(len(q)), np.arange(len(q))
    for _ in range(_HALVINGS):
        trial = evaluate(excess.take(todo), q[todo] + length[todo, None] * step[todo])
        value = 0.5 * ridge * (trial.q * trial.q).sum(axis=1) + mu[todo] * trial.f
        good = value <= allowed[todo] + _ARMIJO * length[todo] * slope[todo]
        for into, found in zip(new, trial, strict=True):
            into[todo[good]] = found[good]
        todo = todo[~good]
        if not todo.size:
            break
        length[todo] *= 0.5
    return new


def solve_symmetric(matrix: Array, columns: Array) -> Array:
    """x with matrix x = columns, symmetric, every diagonal entry brought to 1 first."""
    root = np.sqrt(np.maximum(np.diagonal(matrix, axis1=1, axis2=2), _TINY))[:, :, None]
    scaled = matrix / (root * np.swapaxes(root, 1, 2))
    try:
        return np.linalg.solve(scaled, columns / root) / root
    except np.linalg.LinAlgError:  # a direction that rounding left without curvature
        diagonal = np.arange(matrix.shape[1])
        scaled[:, diagonal, diagonal] += 4 * EPS * len(diagonal)
        return np.linalg.solve(scaled, columns / root) / root
