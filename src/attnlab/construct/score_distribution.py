"""Scores of independent random keys k_i ~ N(mu_i, Sigma_i): z_i = scale Q k_i, Q one row per head.

    z_i ~ N(scale Q mu_i, scale^2 Q Sigma_i Q^T):  the rank of that matrix is the number of
    independent normal variables that the scores of key i depend on

A number that depends on a single normal variable in all is computed exactly. Others are computed
with scrambled Sobol points; several scramblings give the error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnlab.construct.numerics import Array

_CHUNK = 4_000_000  # scores held at once
_SCRAMBLINGS = 16
_POINTS = 2**12  # per scrambling
_REACH, _GRID = 9.0, 6001  # standard deviations (less than 1e-18 lies beyond) and grid points
_ZERO = 1e-12  # a smaller share of the largest variance counts as no randomness


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
        """softmax of the scores at values of the normal variables: (draw, head, key)."""
        scores = np.repeat(self.mean[None], len(normals), axis=0)
        for column, (key, factor) in enumerate(self.factors):
            scores[:, :, key] += normals[:, column, None] * factor
        scores -= scores.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        return scores / scores.sum(axis=2, keepdims=True)

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
