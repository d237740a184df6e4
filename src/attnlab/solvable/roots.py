"""f(x) = F(x) - x = 0 in two or three unknowns: Newton whose Jacobian is measured once, then updated.

    x+ = x - B^-1 f,    B+ = B + (df - B dx) dx^T / |dx|^2     (Broyden's first method)

The Jacobian is handed on along a curve, so that a continued point costs a handful of evaluations.
Damped iteration would need a hundred: the map's eigenvalues reach below -5 on the positional branch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Problem = Callable[[Array], Array]

_PROBE = 1e-3


@dataclass(frozen=True)
class Attempt:
    """Where Newton ended; inside says that the start's neighbourhood held it; slope is the Jacobian."""

    x: Array
    residual: float
    inside: bool
    slope: Array


def jacobian(problem: Problem, x: Array, f: Array) -> Array:
    """df/dx by one-sided differences, a column per evaluation."""
    columns: list[Array] = []
    for i in range(x.size):
        probe = x.copy()
        probe[i] += _PROBE
        columns.append((problem(probe) - f) / _PROBE)
    return np.stack(columns, axis=1)


def solve(
    problem: Problem, x: Array, tol: float, slope: Array | None, reach: Array, steps: int = 12
) -> Attempt:
    """The root nearest to x, or the place on the edge of the box x +- reach where Newton left it."""
    start = x
    f = problem(x)
    fresh = slope is None
    if slope is None:
        slope = jacobian(problem, x, f)
    for _ in range(steps):
        worst = float(np.abs(f).max())
        if worst < tol:
            break
        step = -np.linalg.lstsq(slope, f, rcond=1e-8)[0]
        outside = bool((np.abs(x + step - start) > reach).any())
        if outside and not fresh:
            # An inherited Jacobian may send us astray: measure before leaving.
            slope, fresh = jacobian(problem, x, f), True
            continue
        if outside:
            edge = x + step / max(1.0, float((np.abs(step) / reach).max()))
            return Attempt(np.clip(edge, start - reach, start + reach), worst, False, slope)
        new = problem(x + step)
        slow = np.abs(new).max() > 0.5 * worst
        slope = slope + np.outer(new - f - slope @ step, step) / (step @ step)
        x, f = x + step, new
        if slow and not fresh:
            slope, fresh = jacobian(problem, x, f), True
    return Attempt(x, float(np.abs(f).max()), True, slope)
