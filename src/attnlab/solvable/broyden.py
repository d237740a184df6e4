"""Broyden's method for f(x) = F(x) - x = 0 in two or three unknowns.

    x+ = x - B^-1 f,    B+ = B + (df - B dx) dx^T / |dx|^2     (Broyden's first method)

The Jacobian is measured once and passed on along a curve, so that a further point costs a handful
of evaluations. Damped iteration needs a hundred: the map has eigenvalues below -3 on the positional
branch.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Problem = Callable[[Array], Array]

_PROBE = 1e-3
_STEPS = 10


@dataclass(frozen=True)
class BroydenResult:
    """The best x, its largest residual, and the Jacobian there, to start the next point with."""

    x: Array
    residual: float
    slope: Array | None


def jacobian(problem: Problem, x: Array, f: Array) -> Array:
    """df/dx by one-sided differences, one column per evaluation."""
    columns: list[Array] = []
    for i in range(x.size):
        probe = x.copy()
        probe[i] += _PROBE
        columns.append((problem(probe) - f) / _PROBE)
    return np.stack(columns, axis=1)


def broyden_solve(
    problem: Problem, x: Array, tol: float, slope: Array | None, reach: Array
) -> BroydenResult:
    """The root near x, or the point where the iteration left the box x +- reach."""
    start = x
    f = problem(x)
    fresh = slope is None
    if slope is None:
        slope = jacobian(problem, x, f)
    best = BroydenResult(x, float(np.abs(f).max()), slope)
    for _ in range(_STEPS):
        if best.residual < tol:
            break
        step = -np.linalg.lstsq(slope, f, rcond=1e-8)[0]
        outside = bool((np.abs(x + step - start) > reach).any())
        if outside and fresh:
            edge = x + step / max(1.0, float((np.abs(step) / reach).max()))
            return BroydenResult(np.clip(edge, start - reach, start + reach), best.residual, slope)
        slow = False
        if not outside:
            new = problem(x + step)
            slow = bool(np.abs(new).max() > 0.5 * np.abs(f).max())
            slope = slope + np.outer(new - f - slope @ step, step) / (step @ step)
            x, f = x + step, new
        if (outside or slow) and not fresh:
            # The Jacobian of another point may mislead: measure it here.
            slope, fresh = jacobian(problem, x, f), True
        worst = float(np.abs(f).max())
        if worst < best.residual:
            best = BroydenResult(x, worst, slope)
    return best
