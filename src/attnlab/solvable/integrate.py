"""E[f(xi, eta)] = sum_k w_k f(xi_k, eta_k) over standard normals: point sets fixed through an iteration.

State evolution integrates over R^4 = (xi_1, xi_2, eta_1, eta_2), two replicas over R^6.
A rule stores base points; `signed` closes them under sign changes of a block of coordinates:

    eta -> -eta makes E[g.eta] vanish exactly at theta = 0 (otherwise theta has a noise floor near 0.01)
    xi  -> -xi  makes E[g_1 - g_2] vanish exactly at m = 0

The integrand of the two-token model is itself unchanged when the tokens are swapped and every sign is
flipped, so each point already stands for two: nothing is gained by adding those images.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Rule:
    """Base points (points, dimension) in normal coordinates and weights that sum to one."""

    name: str
    nodes: Array
    weights: Array

    @property
    def dimension(self) -> int:
        return self.nodes.shape[1]

    def signed(self, *blocks: slice) -> tuple[Array, Array]:
        """Nodes (dimension, points) and weights, closed under a sign change of each block."""
        nodes = self.nodes.T
        weights = self.weights
        for block in blocks:
            image = nodes.copy()
            image[block] *= -1
            nodes = np.concatenate([nodes, image], axis=1)
            weights = 0.5 * np.concatenate([weights, weights])
        return np.ascontiguousarray(nodes), weights


def _uniform(name: str, unit: Array) -> Rule:
    """Equal weights on the normal images of points in the unit cube."""
    count = unit.shape[0]
    # Scrambled points may round to 0, whose normal image is infinite.
    inside = np.clip(unit, 2.0**-54, 1 - 2.0**-53)
    return Rule(name, ndtri(inside), np.full(count, 1 / count))


def sobol(points: int = 2**14, seed: int = 0, dimension: int = 4) -> Rule:
    """Scrambled Sobol points: `points` of them (a power of two) once closed under one sign change."""
    power = points.bit_length() - 2
    if points < 4 or 2 ** (power + 1) != points:
        raise ValueError(f"points must be a power of two, at least 4: got {points}")
    engine = qmc.Sobol(d=dimension, scramble=True, rng=np.random.default_rng(seed))
    return _uniform(f"sobol-{points}", engine.random_base2(power))


def kronecker(points: int = 2**14, seed: int = 0, dimension: int = 4) -> Rule:
    """frac(k a + shift), a_j = phi^-j with phi^(d+1) = phi + 1: a lattice for any number of points.

    It shares nothing with Sobol's construction but the random shift, so it serves as second opinion.
    """
    if points < 4 or points % 2:
        raise ValueError(f"points must be even and at least 4: got {points}")
    phi = 2.0
    for _ in range(64):  # the contraction phi <- (1 + phi)^(1/(d+1)) reaches its limit
        phi = (1 + phi) ** (1 / (dimension + 1))
    directions = phi ** -np.arange(1, dimension + 1)
    shift = np.random.default_rng(seed).random(dimension)
    steps = np.arange(1, points // 2 + 1)[:, None]
    return _uniform(f"kronecker-{points}", (steps * directions + shift) % 1.0)


def gauss_hermite(order: int = 12, dimension: int = 4) -> Rule:
    """Product Gauss-Hermite of even order: exact for polynomials of degree 2 order - 1 a coordinate.

    Only the part with xi_1 > 0 and eta_1 > 0 is stored (first and middle coordinate): the sign changes
    of `signed` restore the rest. Coarse where the prox jumps: see THEORY, "spurious fixed points".
    """
    if order < 2 or order % 2:
        raise ValueError(f"order must be even and at least 2: got {order}")
    x, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    grid = np.stack(np.meshgrid(*[x] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    weight = np.prod(
        np.stack(np.meshgrid(*[w] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension), axis=1
    )
    keep = (grid[:, 0] > 0) & (grid[:, dimension // 2] > 0)
    return Rule(f"gauss-hermite-{order}", grid[keep], weight[keep] / weight[keep].sum())
