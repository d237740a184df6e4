"""Quadrature rules for E[f(xi, eta)] over standard normals: sum_k w_k f(xi_k, eta_k).

State evolution integrates over R^4 = (xi_1, xi_2, eta_1, eta_2), two replicas over R^6. A rule
stores base points; `with_sign_flips` closes them under sign changes of a block of coordinates:

    eta -> -eta makes E[g.eta] vanish exactly at theta = 0 (else theta has a noise floor near 0.01)
    xi  -> -xi  makes E[g_1 - g_2] vanish exactly at m = 0

The integrand of the two-token model does not change when the tokens are swapped and every sign is
flipped (if F_11 = F_22), so each point already represents two: such images would add nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

Array = NDArray[np.float64]

_GENERATOR = (1, 182667, 469891, 498753, 110745, 446247, 250185, 118627)


@dataclass(frozen=True, eq=False)  # arrays have no single truth value to compare by
class Rule:
    """Base points (points, dimension) for standard normals, with weights that sum to one."""

    name: str
    nodes: Array
    weights: Array

    @property
    def dimension(self) -> int:
        """The number of normal variables that the rule integrates over."""
        return self.nodes.shape[1]

    def with_sign_flips(self, *blocks: slice) -> tuple[Array, Array]:
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
    """Equal weights on points of the unit cube, mapped to standard normals."""
    count = unit.shape[0]
    # Scrambled points may round to 0, which would map to minus infinity.
    inside = np.clip(unit, 2.0**-54, 1 - 2.0**-53)
    return Rule(name, ndtri(inside), np.full(count, 1 / count))


def sobol(points: int = 2**14, seed: int = 0, dimension: int = 4) -> Rule:
    """Scrambled Sobol points; `points`, a power of two, counts them after one sign flip."""
    power = points.bit_length() - 2
    if points < 4 or 2 ** (power + 1) != points:
        raise ValueError(f"points must be a power of two, at least 4: got {points}")
    engine = qmc.Sobol(d=dimension, scramble=True, rng=np.random.default_rng(seed))
    return _uniform(f"sobol-{points}", engine.random_base2(power))


def lattice(points: int = 2**14, seed: int = 0, dimension: int = 4) -> Rule:
    """A shifted rank-one lattice frac(k a / n + shift); `points` counts them after one sign flip.

    The generating vector is F. Kuo's lattice-32001-1024-1048576.3600, made for n = 2^10 to 2^20.
    It shares nothing with Sobol's construction, so it serves as an independent check.
    """
    count = points // 2
    if points < 4 or points & (points - 1):
        raise ValueError(f"points must be a power of two, at least 4: got {points}")
    if dimension > len(_GENERATOR):
        raise ValueError(f"the lattice has at most {len(_GENERATOR)} dimensions: got {dimension}")
    shift = np.random.default_rng(seed).random(dimension)
    steps = np.arange(count)[:, None] * np.array(_GENERATOR[:dimension]) % count
    return _uniform(f"lattice-{points}", (steps / count + shift) % 1.0)


def gauss_hermite(order: int = 12, dimension: int = 4) -> Rule:
    """Product Gauss-Hermite of even order: exact up to degree 2 order - 1 in each coordinate.

    Only the part with xi_1 > 0 and eta_1 > 0 is stored (first and middle coordinate): the sign
    flips restore the rest. Coarse where the prox jumps, which leads to spurious fixed points.
    """
    if order < 2 or order % 2:
        raise ValueError(f"order must be even and at least 2: got {order}")
    x, w = np.polynomial.hermite_e.hermegauss(order)
    w = w / w.sum()
    index = np.indices((order,) * dimension).reshape(dimension, -1).T
    grid, weight = x[index], w[index].prod(axis=1)
    keep = (grid[:, 0] > 0) & (grid[:, dimension // 2] > 0)
    return Rule(f"gauss-hermite-{order}", grid[keep], weight[keep] / weight[keep].sum())
