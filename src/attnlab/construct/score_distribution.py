"""Scores of random keys: k_i ~ N(mu_i, Sigma_i) independent, z_i = scale Q k_i, a row of Q a head.

    z_i ~ N(scale Q mu_i, scale^2 Q Sigma_i Q^T):  as many normals a key as that matrix has rank

A number that depends on one normal in all is found exactly; on more, by scrambled Sobol points
(several scramblings, so that the error is known) and, beside it, by plain random draws.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CHUNK = 4_000_000  # scores held at once
_SCRAMBLINGS = 16
_POINTS = 2**12  # of each
_REACH, _GRID = 9.0, 6001  # standard deviations; less than 1e-18 lies beyond
_LOST = 1e-12  # of the largest variance: less is no randomness


@dataclass(frozen=True, eq=False)
class ScoreDistribution:
    """The joint law of all scores: mean (head, key), covariance (key, head, head)."""

    mean: Array
    covariance: Array

    @staticmethod
    def of(means: Array, covariances: Array, queries: Array, scale: float) -> ScoreDistribution:
        """Of these keys, seen by these queries."""
        mean = scale * (queries @ means.T)
        covariance = scale**2 * np.einsum("ad,idc,bc->iab", queries, covariances, queries)
        return ScoreDistribution(mean, 0.5 * (covariance + covariance.transpose(0, 2, 1)))

    @cached_property
    def factors(self) -> list[tuple[int, Array]]:
        """(key, column): z of that key moves along the column with one normal each."""
        values, vectors = np.linalg.eigh(self.covariance)
        least = _LOST * float(values.max(initial=0.0))
        return [
            (i, math.sqrt(values[i, r]) * vectors[i, :, r])
            for i in range(len(values))
            for r in range(values.shape[1])
            if values[i, r] > least
        ]

    @property
    def spread(self) -> Array:
        """Standard deviations (head, key)."""
        return np.sqrt(np.maximum(np.einsum("iaa->ai", self.covariance), 0.0))

    @property
    def heads_are_independent(self) -> bool:
        """Whether no key's scores are correlated between heads."""
        spread = self.spread
        limit = _LOST * spread.T[:, :, None] * spread.T[:, None, :]
        off = ~np.eye(len(self.mean), dtype=bool)
        return bool((np.abs(self.covariance) <= limit)[:, off].all())

    def weights(self, normals: Array) -> Array:
        """softmax of the scores these normals give: (draw, head, key)."""
        scores = np.repeat(self.mean[None], len(normals), axis=0)
        for column, (key, factor) in enumerate(self.factors):
            scores[:, :, key] += normals[:, column, None] * factor
        scores -= scores.max(axis=2, keepdims=True)
        np.exp(scores, out=scores)
        return scores / scores.sum(axis=2, keepdims=True)

    def sampled(self, count: int, generator: np.random.Generator) -> Iterator[Array]:
        """`count` random draws of the weights, in parts that fit into memory."""
        part = max(1, _CHUNK // self.mean.size)
        for start in range(0, count, part):
            shape = (min(part, count - start), len(self.factors))
            yield self.weights(generator.standard_normal(shape))

    def even(self, seed: int) -> Iterator[Array]:
        """Weights on scrambled Sobol points, one array a scrambling."""
        from scipy.special import ndtri
        from scipy.stats import qmc

        points = min(_POINTS, 2 ** max(5, int(math.log2(max(_CHUNK // self.mean.size, 1)))))
        for scrambling in range(_SCRAMBLINGS):
            generator = np.random.default_rng([seed, scrambling])
            engine = qmc.Sobol(d=len(self.factors), scramble=True, rng=generator)
            unit = np.clip(engine.random_base2(int(math.log2(points))), 2.0**-54, 1 - 2.0**-53)
            yield self.weights(ndtri(unit))


def probability_negative(event: Callable[[Array], Array]) -> float:
    """P(some entry of event(x) < 0), x one standard normal: the roots, then differences of Phi.

    `event` maps points (m,) to (m, entries), continuous and with no two roots of one entry within
    0.003 of each other.
    """
    from scipy.optimize import root_scalar
    from scipy.special import ndtr

    grid = np.linspace(-_REACH, _REACH, _GRID)
    values = event(grid)
    cuts = [-_REACH, _REACH]
    for entry in range(values.shape[1]):
        sign = values[:, entry] < 0
        for at in np.flatnonzero(sign[1:] != sign[:-1]):
            one = lambda x, entry=entry: float(event(np.array([x]))[0, entry])  # noqa: E731
            ends = (float(grid[at]), float(grid[at + 1]))
            if one(ends[0]) * one(ends[1]) < 0:
                cuts.append(float(root_scalar(one, bracket=ends, xtol=1e-14).root))
            else:  # an end is the root itself
                cuts.append(ends[0] if one(ends[0]) == 0 else ends[1])
    cuts.sort()
    found = 0.0
    for low, high in itertools.pairwise(cuts):
        if high > low and bool((event(np.array([0.5 * (low + high)])) < 0).any()):
            a = -math.inf if low == -_REACH else low
            b = math.inf if high == _REACH else high
            # Far right of 0 both values of Phi are near 1: use the mirror image.
            found += float(ndtr(-a) - ndtr(-b)) if a > 0 else float(ndtr(b) - ndtr(a))
    return found
