"""The definitions, written out: softmax, and searches over directions that know no theory."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def softmax(scores: Array) -> Array:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def entropy(p: Array) -> float:
    return -math.fsum(float(x) * math.log(x) for x in p if x > 0)


def directions(h: int, count: int) -> tuple[Array, float]:
    """Unit vectors in 2 or 3 dimensions, and an angle within which every direction has one.

    On the sphere: rings at equal steps of latitude, each with steps no longer than that; a point
    is at most half a step from a ring and half a step along it, so at most 0.75 steps away.
    """
    if h == 2:
        step = 2 * math.pi / count
        angles = step * np.arange(count)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1), step / 2
    step = math.sqrt(4 * math.pi / count)
    rings = []
    for latitude in np.arange(-math.pi / 2, math.pi / 2 + step, step):
        around = max(1, math.ceil(2 * math.pi * math.cos(latitude) / step))
        turn = 2 * math.pi * np.arange(around) / around
        flat = math.cos(latitude) * np.stack([np.cos(turn), np.sin(turn)], axis=1)
        rings.append(np.column_stack([flat, np.full(around, math.sin(latitude))]))
    return np.concatenate(rings), 0.75 * step


def radius(moves: Array, level: float, longest: float) -> float:
    """The least r in [0, longest] with log sum exp(r moves) <= level, by looking; inf if none.

    The function is convex in r: the lowest point of a fine grid, then bisection before it.
    """
    grid = np.linspace(0, longest, 513)
    scores = grid[:, None] * moves
    top = scores.max(axis=1)
    values = top + np.log(np.exp(scores - top[:, None]).sum(axis=1))
    good = np.flatnonzero(values <= level)
    if not good.size:
        return math.inf
    if good[0] == 0:
        return 0.0
    low, high = grid[good[0] - 1], grid[good[0]]
    for _ in range(60):
        middle = 0.5 * (low + high)
        value = math.log(np.exp(middle * moves).sum())
        low, high = (low, middle) if value <= level else (middle, high)
    return float(high)
