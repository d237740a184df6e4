"""Scores of independent random keys k_i ~ N(mu_i, Sigma_i): z_i = scale Q k_i, Q one row per head.

    z_i ~ N(scale Q mu_i, scale^2 Q Sigma_i Q^T):  the rank of that matrix is the number of
    independent normal variables that the scores of key i depend on

A number that depends on a single normal variable in all is computed exactly. Others are computed
with scrambled Sobol points; several scramblings give the error.

The moments of w = softmax(z), z_j ~ N(m_j, t_j^2) independent, are exact for any number of keys.
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

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnlab.construct.numerics import Array
from attnlab.core.errors import UsageError

_CHUNK = 4_000_000  # scores held at once
_SCRAMBLINGS = 16
_POINTS = 2**12  # per scrambling
_REACH, _GRID = 9.0, 6001  # standard deviations (less than 1e-18 lies beyond) and grid points
_ZERO = 1e-12  # a smaller share of the largest variance counts as no randomness
STEP = 0.25
_TAIL = 8.5  # standard deviations; less than 1e-17 of the normal lies beyond
_BELOW, _ABOVE = 4.0, 40.0  # the same for a Gumbel variable, downwards and upwards
_NARROW = 0.5  # spread up to which Gauss-Hermite needs few nodes; above it the grid suffices
_NODES = 64
_LARGEST_GRID = 4_000_000  # points
_SMALLEST = 1e-100  # keeps quotients of two vanishing numbers finite


@dataclass(frozen=True, eq=False)
class ScoreDistribution:
    """The joint normal distribution of scores: mean (head, key), covariance (key, head, head)."""

    mean: Array
    covariance: Array

    @staticmethod
    def of(means: Array, covariances: Array, queries: Array, scale: float) -> ScoreDistribution:
        """The scores that these queries give to keys with these means and covariances."""
        mean = scale * (queries @ means.T)
        covariance = scale**2 * np.einsum("ad,idc,bc->iab", queries, covariances, queries)
        return ScoreDistribution(mean, 0.5 * (covariance + covariance.transpose(0, 2, 1)))

    @cached_property
    def factors(self) -> list[tuple[int, Array]]:
        """(key, column) per normal variable: column times variable is added to the key's scores."""
        values, vectors = np.linalg.eigh(self.covariance)
        least = _ZERO * float(values.max(initial=0.0))
        return [
            (i, math.sqrt(values[i, r]) * vectors[i, :, r])
            for i in range(len(values))
            for r in range(values.shape[1])
            if values[i, r] > least
        ]

    @property
    def spread(self) -> Array:
        """The standard deviation of every score, (head, key)."""
        return np.sqrt(np.maximum(np.einsum("iaa->ai", self.covariance), 0.0))

    @property
    def heads_are_independent(self) -> bool:
        """Whether the scores of every key are uncorrelated between heads."""
        spread = self.spread
        limit = _ZERO * spread.T[:, :, None] * spread.T[:, None, :]
        off = ~np.eye(len(self.mean), dtype=bool)
        return bool((np.abs(self.covariance) <= limit)[:, off].all())

    def weights(self, normals: Array) -> Array:
        """Softmax of the scores at values of the normal variables, mean over heads: (draw, key)."""
        scores = np.repeat(self.mean[None], len(normals), axis=0)
        for column, (key, factor) in enumerate(self.factors):
            scores[:, :, key] += normals[:, column, None] * factor
        scores -= scores.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        return (scores / scores.sum(axis=2, keepdims=True)).mean(axis=1)

    def sobol_weights(self, seed: int) -> Iterator[Array]:
        """The weights at scrambled Sobol points, one array per scrambling."""
        from scipy.special import ndtri
        from scipy.stats import qmc

        points = min(_POINTS, 2 ** max(5, int(math.log2(max(_CHUNK // self.mean.size, 1)))))
        for scrambling in range(_SCRAMBLINGS):
            generator = np.random.default_rng([seed, scrambling])
            engine = qmc.Sobol(d=len(self.factors), scramble=True, rng=generator)
            unit = np.clip(engine.random_base2(int(math.log2(points))), 2.0**-54, 1 - 2.0**-53)
            yield self.weights(ndtri(unit))


def probability_negative(event: Callable[[Array], Array]) -> float:
    """P(some entry of event(x) < 0) for a standard normal x: find the roots, add intervals of Phi.

    `event` maps points (m,) to (m, entries). It must be continuous, and two roots of one entry
    must be at least 0.003 apart.
    """
    from scipy.optimize import root_scalar
    from scipy.special import ndtr

    def value(x: float, entry: int) -> float:
        return float(event(np.array([x]))[0, entry])

    grid = np.linspace(-_REACH, _REACH, _GRID)
    values = event(grid)
    cuts = [-_REACH, _REACH]
    for entry in range(values.shape[1]):
        sign = values[:, entry] < 0
        for at in np.flatnonzero(sign[1:] != sign[:-1]):
            ends = (float(grid[at]), float(grid[at + 1]))
            at_low, at_high = value(ends[0], entry), value(ends[1], entry)
            if at_low * at_high < 0:
                solution = root_scalar(value, args=(entry,), bracket=ends, xtol=1e-14)
                cuts.append(float(solution.root))
            else:  # an end is the root itself
                cuts.append(ends[0] if at_low == 0 else ends[1])
    cuts.sort()
    probability = 0.0
    for low, high in itertools.pairwise(cuts):
        if high > low and bool((event(np.array([0.5 * (low + high)])) < 0).any()):
            a = -math.inf if low == -_REACH else low
            b = math.inf if high == _REACH else high
            # Far right of 0 both values of Phi are close to 1: use the mirror image.
            probability += float(ndtr(-a) - ndtr(-b)) if a > 0 else float(ndtr(b) - ndtr(a))
    return probability


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
