"""Certificates in exact arithmetic: doubles are rationals, so sum lambda_i k_i = sum a_s k_s can be
checked without rounding.

A lambda from floating point misses the equations by a rounding error. Its largest entries are
solved for exactly (Gauss-Jordan elimination in fractions) and the others kept; if no entry is
negative, the result proves membership in the convex hull. Entropies are enclosed between doubles:
we assume that the C library's log and exp err by at most two units in the last place, and round
every operation outwards.
"""

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from attnlab.construct.numerics import Array

SMALL = 200  # keys times dimensions up to which arithmetic in fractions is quick


def exact_combination(
    rest: Array, members: Array, weights: Array
) -> tuple[list[Fraction], list[Fraction]] | None:
    """lambda, a with sum lambda_i rest_i = sum a_s members_s exactly, next to lambda = `weights`.

    Both sum to one and lambda is not negative; None if there is no such combination nearby.
    """
    used, free = np.flatnonzero(weights > 0), len(members)
    columns = np.zeros((free + len(used), rest.shape[1] + 2))
    columns[:free, :-2], columns[free:, :-2] = -members, rest[used]
    columns[:free, -2], columns[free:, -1] = 1, 1
    order = _pivot_order(columns, weights[used], free)
    start = np.concatenate([np.zeros(free), weights[used]])
    targets = [Fraction(0)] * rest.shape[1] + [Fraction(1)] * 2
    equations = zip(columns[order].T, targets, strict=True)
    solution = solve_exactly(
        [[*to_fractions(line), target] for line, target in equations], to_fractions(start[order])
    )
    if solution is None:
        return None
    by_column = dict(zip(order, solution, strict=True))
    combined = [Fraction(0)] * len(rest)
    for index, row in enumerate(used):
        combined[int(row)] = by_column[free + index]
    if min(combined) < 0:
        return None
    return combined, [by_column[s] for s in range(free)]


def to_fractions(values: Iterable[float]) -> list[Fraction]:
    """Every double as the rational number that it is."""
    return [Fraction(float(x)) for x in values]


def _pivot_order(columns: Array, weights: Array, free: int) -> list[int]:
    """The order in which to solve for the columns: those of free sign first, then by weight."""
    from scipy.linalg import qr

    size = float(np.abs(columns[:, :-2]).max()) or 1.0
    scaled = columns / np.r_[np.full(columns.shape[1] - 2, size), 1.0, 1.0]
    scaled[free:] *= np.maximum(weights, 1e-12)[:, None]
    scaled[:free] *= 1e3
    pivots: Any = qr(scaled.T, mode="economic", pivoting=True)[-1]
    return [int(column) for column in pivots]


def solve_exactly(
    equations: list[list[Fraction]], start: Sequence[Fraction]
) -> list[Fraction] | None:
    """Solve linear equations, each a row of coefficients followed by its right-hand side.

    Unknowns without a pivot keep their value in `start`. None where there is no solution.
    """
    rows, pivots = list(equations), list[int]()
    for column in range(len(start)):
        if len(pivots) == len(rows):
            break
        _eliminate(rows, pivots, column)
    if any(row[-1] != 0 for row in rows[len(pivots) :]):
        return None
    solution = list(start)
    for row, column in zip(rows, pivots, strict=False):
        others = (row[c] * start[c] for c in range(len(start)) if row[c] and c != column)
        solution[column] = row[-1] - sum(others, Fraction(0))
    return solution


def _eliminate(rows: list[list[Fraction]], pivots: list[int], column: int) -> None:
    """Clear a column from all rows but one, if a row below the pivots has it; record the pivot."""
    top = len(pivots)
    pivot = next((r for r in range(top, len(rows)) if rows[r][column]), None)
    if pivot is None:
        return
    rows[top], rows[pivot] = rows[pivot], rows[top]
    head = rows[top][column]
    rows[top] = [x / head for x in rows[top]]
    for r, row in enumerate(rows):
        if r != top and row[column]:
            factor = row[column]
            rows[r] = [x - factor * y if y else x for x, y in zip(row, rows[top], strict=True)]
    pivots.append(column)


def round_down(x: float, steps: int = 1) -> float:
    """The double that lies `steps` doubles below x."""
    for _ in range(steps):
        x = math.nextafter(x, -math.inf)
    return x


def round_up(x: float, steps: int = 1) -> float:
    """The double that lies `steps` doubles above x."""
    return -round_down(-x, steps)


def entropy_bounds(weights: Sequence[Fraction]) -> tuple[float, float]:
    """A double below and a double above -sum x log x."""
    bounds = [_term_bounds(x) for x in weights if x > 0]
    low = round_down(math.fsum(low for low, _ in bounds), 2)
    return max(low, 0.0), round_up(math.fsum(high for _, high in bounds), 2)


def _term_bounds(x: Fraction) -> tuple[float, float]:
    """Bounds on -x log x, which is concave: smallest at an end, at most 1/e if that lies inside."""
    near = float(x)
    ends = (max(round_down(near), 0.0), min(round_up(near), 1.0))
    values = [-t * math.log(t) if t > 0 else 0.0 for t in ends]
    low = round_down(min(values), 4) if min(values) > 0 else 0.0
    inside = ends[0] < 1 / math.e < ends[1]
    return low, round_up(max(*values, 1 / math.e if inside else 0.0), 4)


def weight_upper_bound(count: int, entropy: float) -> float:
    """A double above count / (count + e^H): no query gives the `count` members more in total."""
    others = round_down(math.exp(entropy), 3)
    return min(1.0, round_up(count / round_down(count + others, 1), 1))


def norm_upper_bound(vector: Sequence[Fraction]) -> float:
    """A double above the Euclidean norm of a rational vector."""
    largest = max((abs(x) for x in vector), default=Fraction(0))
    if largest == 0:
        return 0.0
    square = sum(((x / largest) ** 2 for x in vector), Fraction(0))
    return round_up(round_up(math.sqrt(round_up(float(square)))) * round_up(float(largest)))
