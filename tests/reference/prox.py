"""The proximal problem by definition: softmax matrices, a dense grid, then a polish. Slow, fp64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]


def energy(z: Array, h: Array, target: Array, variance: float, sigma2: float) -> Array:
    """sum_l (z_l - h_l)^2 / V + sigma^2 ||softmax(z z^T) - T||_F^2 for z of shape (..., 2)."""
    scores = z[..., :, None] * z[..., None, :]
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    miss = ((weights - target) ** 2).sum(axis=(-1, -2))
    return ((z - h) ** 2).sum(axis=-1) / variance + sigma2 * miss


def prox(h: Array, target: Array, variance: float, sigma2: float) -> Array:
    """The lowest point of a grid over [-2.5, 2.5]^2, its three best distinct cells polished."""
    axis = np.linspace(-2.5, 2.5, 126)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    values = energy(grid, h, target, variance, sigma2)
    inner = values[1:-1, 1:-1]
    neighbours = [
        values[1 + i : 125 + i, 1 + j : 125 + j] for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j
    ]
    cells = np.argwhere(np.all([inner <= near for near in neighbours], axis=0)) + 1
    best, lowest = h, np.inf
    for i, j in cells:
        found = minimize(
            lambda z: float(energy(z, h, target, variance, sigma2)),
            grid[i, j],
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-15},
        )
        if found.fun < lowest:
            best, lowest = np.asarray(found.x, dtype=np.float64), float(found.fun)
    return best
