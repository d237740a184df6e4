"""Certificates in exact arithmetic: doubles are rationals, so sum lambda_i k_i = sum a_s k_s can be
checked as it stands.

A lambda found in floating point misses the equations by a rounding error. Its largest entries are
solved for exactly (Gauss, in fractions), the others kept; if all stay >= 0 it proves membership.
Entropies are enclosed between doubles: logarithm and exponential of the C library are taken to be
wrong by two units in the last place at most, every operation is rounded outwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from attnlab.construct.log_sum_exp import Array

SMALL = 200  # keys times dimensions up to which fractions are quick


class Combination(NamedTuple):
    """sum_i rest[i] k_i = sum_s members[s] k_s, both of sum one; `rest` is not negative."""

    rest: list[Fraction]
    members: list[Fraction]


def exact_combination(rest: Array, members: Array, weights: Array) -> Combination | None:
    """The exact combination next to `weights` (over the keys `rest`), or None if there is none."""
    used, free = np.flatnonzero(weights > 0), len(members)
    columns = np.zeros((free + len(used), rest.shape[1] + 2))
    columns[:free, :-2], columns[free:, :-2] = -members, rest[used]
    columns[:free, -2], columns[free:, -1] = 1, 1
    order = _order(columns, weights[used], free)
    start = np.concatenate([np.zeros(free), weights[used]])
    solution = _solve(
        [_fractions(line) for line in columns[order].T],
        [Fraction(0)] * rest.shape[1] + [Fraction(1)] * 2,
        _fractions(start[order]),
    )
    if solution is None:
        return None
    found = dict(zip(order, solution, strict=True))
    spread = [Fraction(0)] * len(rest)
    for place, row in enumerate(used):
        spread[int(row)] = found[free + place]
    return Combination(spread, [found[s] for s in range(free)]) if min(spread) >= 0 else None


def _fractions(values: Array) -> list[Fraction]:
    return [Fraction(float(x)) for x in values]


def _order(columns: Array, weights: Array, free: int) -> list[int]:
    """Columns in the order in which to solve for them: those without a sign, then by weight."""
    from scipy.linalg import qr

    size = float(np.abs(columns[:, :-2]).max()) or 1.0
    scaled = columns / np.r_[np.full(columns.shape[1] - 2, size), 1.0, 1.0]
    scaled[free:] *= np.maximum(weights, 1e-12)[:, None]
    scaled[:free] *= 1e3
    pivots: Any = qr(scaled.T, mode="economic", pivoting=True)[-1]
    return [int(place) for place in pivots]


def _solve(
    table: list[list[Fraction]], target: list[Fraction], start: Sequence[Fraction]
) -> list[Fraction] | None:
    """A solution, equal to `start` but for the entries a pivot solves for; None if none exists."""
    rows = [[*line, goal] for line, goal in zip(table, target, strict=True)]
    pivots: list[int] = []
    for column in range(len(start)):
        if len(pivots) == len(rows):
            break
        _eliminate(rows, pivots, column)
    if any(row[-1] != 0 for row in rows[len(pivots) :]):
        return None
    found = list(start)
    for row, column in zip(rows, pivots, strict=False):
        others = (row[c] * start[c] for c in range(len(start)) if row[c] and c != column)
        found[column] = row[-1] - sum(others, Fraction(0))
    return found


def _eliminate(rows: list[list[Fraction]], pivots: list[int], column: int) -> None:
    """Clear a column from all rows but one, if a row below the pivots still has it."""
    top = len(pivots)
    place = next((r for r in range(top, len(rows)) if rows[r][column]), None)
    if place is None:
        return
    rows[top], rows[place] = rows[place], rows[top]
    head = rows[top][column]
    rows[top] = [x / head for x in rows[top]]
    for r, row in enumerate(rows):
        if r != top and row[column]:
            factor = row[column]
            rows[r] = [x - factor * y if y else x for x, y in zip(row, rows[top], strict=True)]
    pivots.append(column)


def round_down(x: float, steps: int = 1) -> float:
    """The double `steps` below."""
    for _ in range(steps):
        x = math.nextafter(x, -math.inf)
    return x


def round_up(x: float, steps: int = 1) -> float:
    """The double `steps` above."""
    for _ in range(steps):
        x = math.nextafter(x, math.inf)
    return x


def entropy_bounds(weights: Sequence[Fraction]) -> tuple[float, float]:
    """Doubles below and above -sum x log x."""
    parts = [_part(x) for x in weights if x > 0]
    low = round_down(math.fsum(low for low, _ in parts), 2)
    return max(low, 0.0), round_up(math.fsum(high for _, high in parts), 2)


def _part(x: Fraction) -> tuple[float, float]:
    """-x log x is concave: least at an end of the interval, at most 1/e where that lies inside."""
    near = float(x)
    ends = (max(round_down(near), 0.0), min(round_up(near), 1.0))
    values = [-t * math.log(t) if t > 0 else 0.0 for t in ends]
    low = round_down(min(values), 4) if min(values) > 0 else 0.0
    inside = ends[0] < 1 / math.e < ends[1]
    return low, round_up(max(*values, 1 / math.e if inside else 0.0), 4)


def weight_upper_bound(count: int, entropy: float) -> float:
    """A double above count / (count + e^H): no query gives the members more."""
    return min(1.0, round_up(count / round_down(count + round_down(math.exp(entropy), 3), 1), 1))


def norm_upper_bound(vector: Sequence[Fraction]) -> float:
    """A double above the length of an exact vector."""
    largest = max((abs(x) for x in vector), default=Fraction(0))
    if largest == 0:
        return 0.0
    square = sum(((x / largest) ** 2 for x in vector), Fraction(0))
    return round_up(round_up(math.sqrt(round_up(float(square)))) * round_up(float(largest)))
