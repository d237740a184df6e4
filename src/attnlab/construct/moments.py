"""E[w] and E[w w^T] of w = softmax(z), z_j ~ N(m_j, t_j^2) independent, for any number of keys.

With S = sum_j e^z_j and x = e^-u, the integrals 1/S = int exp(-x S) dx and 1/S^2 = int x exp(-x S)
dx turn the quotient into a product, and for independent keys its mean into a product of
one-dimensional means:

    E[w_i]     = int f_i  prod_{j != i} F_j du         F_j(u) = E exp(-e^(z_j - u))
    E[w_i w_k] = int f_i f_k prod_{j != i,k} F_j du    f_j(u) = E e^(z_j - u) exp(-e^(z_j - u))
    E[w_i^2]   = int h_i  prod_{j != i} F_j du         h_j(u) = E e^2(z_j - u) exp(-e^(z_j - u))

F_j is the distribution function of z_j plus a Gumbel variable: w_i is the probability that key i
has the largest such sum (the Gumbel-max trick). All functions are analytic and fall off fast, so
the trapezoidal rule at a step of 1/4 is exact to rounding (its error is e^(-pi^2 / step)). The sums
of E[w] and of E[w w^T] must both be 1, which serves as a check.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnlab.construct.numerics import Array
from attnlab.core.errors import UsageError

STEP = 0.25
_TAIL = 8.5  # standard deviations; less than 1e-17 of the normal lies beyond
_BELOW, _ABOVE = 4.0, 40.0  # the same for a Gumbel variable, downwards and upwards
_NARROW = 0.5  # spread up to which Gauss-Hermite needs few nodes; above it the grid suffices
_NODES = 64
_LARGEST_GRID = 4_000_000  # points
_SMALLEST = 1e-100  # keeps quotients of two vanishing numbers finite


@dataclass(frozen=True, eq=False)
class Moments:
    """First and second moments of the weights; `residual` is how far their sums are from 1."""

    mean: Array
    second: Array
    residual: float

    @property
    def covariance(self) -> Array:
        """The covariance matrix E[w w^T] - E[w] E[w]^T."""
        return self.second - np.outer(self.mean, self.mean)


def softmax_moments(mean: Array, spread: Array, step: float = STEP) -> Moments:
    """The moments of softmax(z), z_j ~ N(mean_j, spread_j^2) independent."""
    mean = mean - mean.max()
    low = float((mean - _TAIL * spread).max()) - _BELOW
    high = float((mean + _TAIL * spread).max()) + _ABOVE
    count = int(np.ceil((high - low) / step)) + 1
    if count > _LARGEST_GRID:
        raise UsageError("the scores vary too much to integrate: use a smaller beta or covariance")
    grid = low + step * np.arange(count, dtype=np.float64)
    kinds, which = np.unique(np.stack([mean, spread]), axis=1, return_inverse=True)
    tables = np.stack([_tables(m, t, grid, step) for m, t in kinds.T])
    win, first, twice = tables[:, 0], tables[:, 1], tables[:, 2]
    counts = np.bincount(which.reshape(-1), minlength=kinds.shape[1])
    product = step * np.exp(counts @ np.log(win))
    rate = first / win
    single = rate @ product
    both = (rate * product) @ rate.T
    same = (twice / win) @ product
    second = both[np.ix_(which.reshape(-1), which.reshape(-1))]
    np.fill_diagonal(second, same[which.reshape(-1)])
    first_moment = single[which.reshape(-1)]
    residual = max(abs(float(first_moment.sum()) - 1), abs(float(second.sum()) - 1))
    return Moments(first_moment, second, residual)


def _tables(mean: float, spread: float, grid: Array, step: float) -> Array:
    """F, f and h of one key on the grid: by Gauss-Hermite nodes, or as a convolution."""
    if spread < _NARROW:
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES if spread > 0 else 1)
        weights = weights / weights.sum()
        table = np.zeros((3, grid.size))
        for node, weight in zip(nodes, weights, strict=True):
            table += weight * _kernels(mean + spread * node - grid)
        return np.maximum(table, [[_SMALLEST], [0.0], [0.0]])
    from scipy.signal import fftconvolve

    half = int(np.ceil(_TAIL * spread / step))
    offsets = step * np.arange(-half, half + 1)
    weights = np.exp(-0.5 * (offsets / spread) ** 2)
    weights = weights / weights.sum()
    # mean + offset_l - grid_k depends on l - k alone: a convolution.
    span = mean - grid[0] + step * np.arange(half, -half - grid.size, -1)
    table = np.stack([fftconvolve(part, weights, mode="valid") for part in _kernels(span)])
    return np.maximum(table, [[_SMALLEST], [0.0], [0.0]])


def _kernels(x: Array) -> Array:
    """The integrands exp(-e^x), e^x exp(-e^x) and e^2x exp(-e^x)."""
    power = np.exp(np.minimum(x, 50.0))  # beyond, all three are 0
    base = np.exp(-power)
    return np.stack([base, power * base, power * power * base])
