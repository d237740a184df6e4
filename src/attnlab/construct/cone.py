"""Find a direction d with row . d < 0 for every row and equation . d = 0, or refute it.

By Gordan's theorem either such a d exists, or there are lambda >= 0 with sum one and mu of any sign
with sum lambda_i row_i = sum mu_e equation_e: a weighted mean of numbers that should all be
negative is then zero whatever d is. Small lambda are checked in exact arithmetic.

`find_long_direction` asks whether such a d exists with l . d <= |d| for every l of a list. This
maximises a convex function, so branch and bound decides it; each bound is a linear program.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from attnlab.construct.exact import solve_exactly, to_fractions
from attnlab.construct.numerics import Array

Box = tuple[Array, Array]

_CLEAR = 1e-9  # a smaller margin, of rows of length 1, counts as zero
_EXACT = 40  # largest number of unknowns solved for in fractions
_BOXES = 3000
_WIDEST = 12  # dimensions: the number of boxes grows exponentially with them
_STARTS, _CLIMBS = 3, 20


@dataclass(frozen=True, eq=False)
class Cone:
    """Rows that shall be negative and equations that shall be zero on a direction.

    The rows are stored as given and in coordinates of the null space of the equations.
    """

    rows: Array
    equations: Array
    basis: Array  # orthonormal columns: d = basis @ y solves the equations
    inside: Array  # rows @ basis, zero where only rounding remains of a row
    reduced: Array  # the same rows, each of length 1 or 0

    @staticmethod
    def of(rows: Array, equations: Array) -> Cone:
        """Compute the null space of the equations and the rows in it."""
        basis = null_space(equations)
        inside = rows @ basis
        sizes = np.linalg.norm(inside, axis=1)
        nonzero = sizes > 1e-12 * np.linalg.norm(rows, axis=1)
        inside = np.where(nonzero[:, None], inside, 0.0)
        reduced = inside / np.where(nonzero, sizes, 1.0)[:, None]
        return Cone(rows, equations, basis, inside, reduced)


@dataclass(frozen=True, eq=False)
class Refutation:
    """lambda over the rows and mu over the equations, and the residual of their identity."""

    rows: Array
    equations: Array
    exact: bool
    residual: float


def null_space(equations: Array) -> Array:
    """Orthonormal columns that are orthogonal to every equation."""
    size = np.linalg.norm(equations, axis=1)
    unit = equations[size > 0] / size[size > 0, None]
    h = equations.shape[1]
    if not len(unit):
        return np.eye(h)
    _, values, directions = np.linalg.svd(unit)
    rank = int((values > 1e-12 * values[0]).sum())
    return directions[rank:].T


def find_direction(cone: Cone) -> tuple[Array | None, Refutation | None]:
    """A direction d, or the refutation from the dual of max m, row . y <= -m, |y_j| <= 1."""
    m, p = cone.reduced.shape
    if m == 0:
        return np.zeros(cone.basis.shape[0]), None
    if p == 0 or not cone.reduced.any(axis=1).all():
        shares = np.zeros(m)
        shares[int(np.argmin(cone.reduced.any(axis=1)))] = 1.0
        return None, _refute(cone, shares)
    rows = np.column_stack([cone.reduced, np.ones(m)])
    bounds = [(-1.0, 1.0)] * p + [(0.0, None)]
    solution = _linear_program(np.append(np.zeros(p), -1.0), rows, np.zeros(m), bounds)
    if float((cone.reduced @ solution.x[:-1]).max()) < -_CLEAR:
        return cone.basis @ solution.x[:-1], None
    shares = np.maximum(-solution.ineqlin.marginals, 0.0)
    # Convert from rows of length 1 to the rows as given.
    shares = shares / np.linalg.norm(cone.inside, axis=1)
    return None, _refute(cone, shares / shares.sum())


def _refute(cone: Cone, shares: Array) -> Refutation:
    """Fit mu to lambda, then solve for both exactly if they are few enough."""
    mean = shares @ cone.rows
    factors = np.zeros(len(cone.equations))
    if len(cone.equations):
        factors = np.asarray(np.linalg.lstsq(cone.equations.T, mean, rcond=None)[0], np.float64)
    used = np.flatnonzero(shares > 1e-12 * shares.max())
    exact = _exact(cone.rows[used], cone.equations, shares[used], factors)
    if exact is not None:
        shares = np.zeros(len(cone.rows))
        shares[used], factors = exact
    size = float(np.abs(cone.rows).max()) or 1.0
    off = np.abs(shares @ cone.rows - factors @ cone.equations).max() / size
    return Refutation(shares, factors, exact is not None, float(off))


def _exact(
    rows: Array, equations: Array, shares: Array, factors: Array
) -> tuple[Array, Array] | None:
    """lambda and mu solved for in fractions; None unless the exact lambda is not negative."""
    count = len(rows) + len(equations)
    if count > _EXACT:
        return None
    columns = np.vstack([rows, -equations]).T
    table = [[*to_fractions(line), Fraction(0)] for line in columns]
    table.append([Fraction(int(c < len(rows))) for c in range(count)] + [Fraction(1)])
    solution = solve_exactly(table, to_fractions([*shares, *factors]))
    if solution is None or min(solution[: len(rows)]) < 0:
        return None
    values = np.array([float(value) for value in solution])
    return values[: len(rows)], values[len(rows) :]


def find_long_direction(cone: Cone, limits: Array) -> tuple[Array | None, float]:
    """A d in the closed cone with max_l l . d < |d|; else None and the largest |d| / max_l l . d.

    The search is for the longest d with l . d <= 1 for all l. The bound of a box replaces each
    y_j^2 by its chord over the box, which is linear. Infinity means undecided: too many
    dimensions or boxes.
    """
    size = float(np.linalg.norm(limits, axis=1).max())
    p = cone.basis.shape[1]
    rows = np.vstack([cone.reduced, limits @ cone.basis / max(size, 1.0)])
    right = np.concatenate([np.zeros(len(cone.reduced)), np.ones(len(limits))])
    goal = max(size, 1.0) ** 2
    if (y := _climb(rows, right, p, goal)) is not None:
        return cone.basis @ y, math.inf
    if p > _WIDEST:
        return None, math.inf
    box = _box(rows, right, p)
    if isinstance(box, np.ndarray):
        return cone.basis @ box, math.inf
    y, bound = _search(rows, right, box, goal)
    return (None if y is None else cone.basis @ y), math.sqrt(bound) / max(size, 1.0)


def _climb(rows: Array, right: Array, p: int, goal: float) -> Array | None:
    """Maximise y . y_previous repeatedly from a few starts: |y| grows to a local maximum."""
    axes = np.eye(p)[: _STARTS if p <= _WIDEST else 0]
    for y in [-rows.sum(axis=0), *axes, *-axes]:
        size = 0.0
        for _ in range(_CLIMBS):
            solution = _linear_program(-y, rows, right, [(None, None)] * p)
            if solution.status != 0:
                ray = _linear_program(-y, rows, np.zeros_like(right), [(-1.0, 1.0)] * p)
                return np.asarray(ray.x) if ray.fun < -1e-7 else None
            y, last = np.asarray(solution.x), size
            size = float(y @ y)
            if size > goal * (1 + 1e-6):
                return y
            if size <= last * (1 + 1e-9):
                break
    return None


def _search(rows: Array, right: Array, box: Box, goal: float) -> tuple[Array | None, float]:
    """A feasible y with |y|^2 > goal, or None and a bound on |y|^2 that is at most goal."""
    queue: list[tuple[float, int, Box]] = []
    _push(queue, rows, right, box, 0)
    for count in range(1, _BOXES):
        if not queue or -queue[0][0] <= goal * (1 + 1e-9):
            return None, max(-queue[0][0], 0.0) if queue else 0.0
        low, high = heapq.heappop(queue)[2]
        best = _maximise_chords(rows, right, (low, high))
        if best is None:
            continue
        if float(best @ best) > goal * (1 + 1e-6):
            return best, math.inf
        axis = int(np.argmax((high - best) * (best - low)))
        cut = best[axis] if low[axis] < best[axis] < high[axis] else 0.5 * (low + high)[axis]
        for side in (0, 1):
            ends = (low.copy(), high.copy())
            ends[1 - side][axis] = cut
            _push(queue, rows, right, ends, 2 * count + side)
    return None, math.inf


def _box(rows: Array, right: Array, p: int) -> Box | Array:
    """The smallest box around the feasible y, or a direction along which they are unbounded."""
    low, high = np.zeros(p), np.zeros(p)
    for axis, sign in itertools.product(range(p), (1.0, -1.0)):
        goal = sign * np.eye(p)[axis]
        ray = _linear_program(goal, rows, np.zeros_like(right), [(-1.0, 1.0)] * p)
        if ray.fun < -1e-7:
            return np.asarray(ray.x)
        solution = _linear_program(goal, rows, right, [(None, None)] * p)
        (low if sign > 0 else high)[axis] = solution.x[axis]
    return low, high


def _maximise_chords(rows: Array, right: Array, box: Box) -> Array | None:
    """The feasible y in the box that maximises the chords of y_j^2."""
    low, high = box
    bounds = [*zip(low, np.maximum(low, high), strict=True)]
    solution = _linear_program(-(low + high), rows, right, bounds)
    return np.asarray(solution.x) if solution.status == 0 else None


def _push(
    queue: list[tuple[float, int, Box]], rows: Array, right: Array, box: Box, count: int
) -> None:
    """Add a box to the queue with its bound on |y|^2."""
    best = _maximise_chords(rows, right, box)
    if best is not None:
        low, high = box
        bound = float((low + high) @ best - low @ high)
        heapq.heappush(queue, (-bound, count, box))


def _linear_program(goal: Array, rows: Array, right: Array, bounds: Sequence[Any]) -> Any:
    """Minimise goal . y subject to rows y <= right."""
    from scipy.optimize import linprog

    tolerances = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return linprog(goal, A_ub=rows, b_ub=right, bounds=bounds, method="highs", options=tolerances)
