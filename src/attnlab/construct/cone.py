"""Directions d with row . d < 0 for every row and equation . d = 0: found, or refuted by Gordan.

    either such a d exists, or there is lambda >= 0, sum lambda = 1 (and any mu) with
    sum lambda_i row_i = sum mu_e equation_e: a weighted mean of numbers that should all be
    negative is zero whatever d is. lambda is checked in exact arithmetic where it is small.

`find_long_direction`: among them, is there a d with l . d <= |d| for every l of a list? That is a convex
function to be made large, so it is decided by branch and bound, each bound a linear programme.
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
from numpy.typing import NDArray

Array = NDArray[np.float64]
Box = tuple[Array, Array]

_CLEAR = 1e-9  # a margin less than this, of rows of length 1, is none
_EXACT = 40  # unknowns solved for in fractions
_BOXES = 3000
_WIDEST = 12  # dimensions: boxes multiply with them
_STARTS, _CLIMBS = 3, 20


@dataclass(frozen=True, eq=False)
class Cone:
    """Rows to be negative and equations to be zero, as given and in the equations' null space."""

    rows: Array
    equations: Array
    basis: Array  # orthonormal columns: d = basis @ y solves the equations
    inside: Array  # rows @ basis, zero where only rounding is left of a row
    reduced: Array  # the same, each of length 1 or 0

    @staticmethod
    def of(rows: Array, equations: Array) -> Cone:
        """The null space of the equations, and the rows seen from inside it."""
        basis = null_space(equations)
        inside = rows @ basis
        sizes = np.linalg.norm(inside, axis=1)
        live = sizes > 1e-12 * np.linalg.norm(rows, axis=1)
        inside = np.where(live[:, None], inside, 0.0)
        reduced = inside / np.where(live, sizes, 1.0)[:, None]
        return Cone(rows, equations, basis, inside, reduced)


@dataclass(frozen=True, eq=False)
class Refutation:
    """lambda over the rows, mu over the equations; exact in fractions, or how far from zero."""

    rows: Array
    equations: Array
    exact: bool
    residual: float


def null_space(equations: Array) -> Array:
    """Orthonormal columns at right angles to every equation, each first made unit length."""
    size = np.linalg.norm(equations, axis=1)
    unit = equations[size > 0] / size[size > 0, None]
    h = equations.shape[1]
    if not len(unit):
        return np.eye(h)
    _, values, directions = np.linalg.svd(unit)
    rank = int((values > 1e-12 * values[0]).sum())
    return directions[rank:].T


def find_direction(cone: Cone) -> tuple[Array | None, Refutation | None]:
    """max m, row . y <= -m, |y_j| <= 1: d = basis y where m > 0, else the dual refutes it."""
    m, p = cone.reduced.shape
    if m == 0:
        return np.zeros(cone.basis.shape[0]), None
    if p == 0 or not cone.reduced.any(axis=1).all():
        shares = np.zeros(m)
        shares[int(np.argmin(cone.reduced.any(axis=1)))] = 1.0
        return None, _refuted(cone, shares)
    rows = np.column_stack([cone.reduced, np.ones(m)])
    bounds = [(-1.0, 1.0)] * p + [(0.0, None)]
    found = _programme(np.append(np.zeros(p), -1.0), rows, np.zeros(m), bounds)
    if float((cone.reduced @ found.x[:-1]).max()) < -_CLEAR:
        return cone.basis @ found.x[:-1], None
    shares = np.maximum(-found.ineqlin.marginals, 0.0)
    # Back from rows of length 1 to the rows as given.
    shares = shares / np.linalg.norm(cone.inside, axis=1)
    return None, _refuted(cone, shares / shares.sum())


def _refuted(cone: Cone, shares: Array) -> Refutation:
    """mu that fits lambda, then both made exact if they are few enough."""
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
    """Solve for lambda and mu in fractions; None unless an exact lambda >= 0 comes out."""
    count = len(rows) + len(equations)
    if count > _EXACT:
        return None
    columns = [*rows.tolist(), *(-equations).tolist()]
    table = [[Fraction(column[d]) for column in columns] for d in range(rows.shape[1])]
    table = [[*line, Fraction(0)] for line in table]
    one = [Fraction(int(c < len(rows))) for c in range(count)]
    table.append([*one, Fraction(1)])
    guess = [Fraction(float(value)) for value in [*shares, *factors]]
    found = _solve(table, guess)
    if found is None or min(found[: len(rows)]) < 0:
        return None
    values = np.array([float(value) for value in found])
    return values[: len(rows)], values[len(rows) :]


def _solve(table: list[list[Fraction]], guess: Sequence[Fraction]) -> list[Fraction] | None:
    """Gauss-Jordan; unknowns without a pivot keep the guess. None where there is no solution."""
    count, pivots = len(guess), list[int]()
    for column in range(count):
        row = next((r for r in range(len(pivots), len(table)) if table[r][column]), None)
        if row is None:
            continue
        at = len(pivots)
        table[at], table[row] = table[row], table[at]
        head = table[at][column]
        table[at] = [value / head for value in table[at]]
        for other in range(len(table)):
            if other != at and (factor := table[other][column]):
                line = zip(table[other], table[at], strict=True)
                table[other] = [value - factor * own for value, own in line]
        pivots.append(column)
    if any(line[count] for line in table[len(pivots) :]):
        return None
    found = list(guess)
    free = [column for column in range(count) if column not in pivots]
    for at, column in enumerate(pivots):
        known = sum((table[at][c] * guess[c] for c in free), Fraction(0))
        found[column] = table[at][count] - known
    return found


def find_long_direction(cone: Cone, limits: Array) -> tuple[Array | None, float]:
    """A d in the closed cone, max over l of l . d < |d|; else None and the largest |d| / max l . d.

    On the slice l . d <= 1 (all l) the longest d is sought. A box's bound replaces each y_j^2 by
    its chord over the box, which is linear. Infinity: undecided (many dimensions or boxes).
    """
    size = float(np.linalg.norm(limits, axis=1).max())
    p = cone.basis.shape[1]
    rows = np.vstack([cone.reduced, limits @ cone.basis / max(size, 1.0)])
    right = np.concatenate([np.zeros(len(cone.reduced)), np.ones(len(limits))])
    goal = max(size, 1.0) ** 2
    if (found := _climb(rows, right, p, goal)) is not None:
        return cone.basis @ found, math.inf
    if p > _WIDEST:
        return None, math.inf
    box = _box(rows, right, p)
    if isinstance(box, np.ndarray):
        return cone.basis @ box, math.inf
    found, bound = _search(rows, right, box, goal)
    return (None if found is None else cone.basis @ found), math.sqrt(bound) / max(size, 1.0)


def _climb(rows: Array, right: Array, p: int, goal: float) -> Array | None:
    """y . y_old made largest again and again from a few starts: |y| grows, to a local maximum."""
    axes = np.eye(p)[: _STARTS if p <= _WIDEST else 0]
    for y in [-rows.sum(axis=0), *axes, *-axes]:
        size = 0.0
        for _ in range(_CLIMBS):
            found = _programme(-y, rows, right, [(None, None)] * p)
            if found.status != 0:
                ray = _programme(-y, rows, np.zeros_like(right), [(-1.0, 1.0)] * p)
                return np.asarray(ray.x) if ray.fun < -1e-7 else None
            y, last = np.asarray(found.x), size
            size = float(y @ y)
            if size > goal * (1 + 1e-6):
                return y
            if size <= last * (1 + 1e-9):
                break
    return None


def _search(rows: Array, right: Array, box: Box, goal: float) -> tuple[Array | None, float]:
    """y in the slice with |y|^2 > goal, or None and a bound on |y|^2 that is no more than goal."""
    queue: list[tuple[float, int, Box]] = []
    _push(queue, rows, right, box, 0)
    for count in range(1, _BOXES):
        if not queue or -queue[0][0] <= goal * (1 + 1e-9):
            return None, max(-queue[0][0], 0.0) if queue else 0.0
        low, high = heapq.heappop(queue)[2]
        best = _relaxed(rows, right, (low, high))
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
    """The least box around the slice, or a direction along which no limit is ever met."""
    low, high = np.zeros(p), np.zeros(p)
    for axis, sign in itertools.product(range(p), (1.0, -1.0)):
        goal = sign * np.eye(p)[axis]
        ray = _programme(goal, rows, np.zeros_like(right), [(-1.0, 1.0)] * p)
        if ray.fun < -1e-7:
            return np.asarray(ray.x)
        found = _programme(goal, rows, right, [(None, None)] * p)
        (low if sign > 0 else high)[axis] = found.x[axis]
    return low, high


def _relaxed(rows: Array, right: Array, box: Box) -> Array | None:
    """The y that makes the chords of y_j^2 over the box largest."""
    low, high = box
    found = _programme(-(low + high), rows, right, [*zip(low, np.maximum(low, high), strict=True)])
    return np.asarray(found.x) if found.status == 0 else None


def _push(
    queue: list[tuple[float, int, Box]], rows: Array, right: Array, box: Box, count: int
) -> None:
    """File a box under its bound on |y|^2."""
    best = _relaxed(rows, right, box)
    if best is not None:
        low, high = box
        bound = float((low + high) @ best - low @ high)
        heapq.heappush(queue, (-bound, count, box))


def _programme(goal: Array, rows: Array, right: Array, bounds: Sequence[Any]) -> Any:
    """min goal . y, rows y <= right."""
    from scipy.optimize import linprog

    near = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    return linprog(goal, A_ub=rows, b_ub=right, bounds=bounds, method="highs", options=near)
