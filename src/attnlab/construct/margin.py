"""The max-margin direction: min ||u|| subject to (k_wanted - k_i) . u >= 1 for every other key.

The shortest query turns to this direction as its weight goes to 1; at any smaller weight another
query is shorter. Solved as non-negative least squares (Lawson and Hanson 1974, chapter 23).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnlab.construct.faces import hull_weights
from attnlab.construct.hull import infimum
from attnlab.construct.log_sum_exp import log_sum_and_softmax
from attnlab.construct.numerics import Array, largest_norm

_STEPS = 200


class Margin(NamedTuple):
    """A direction u of length 1, its gap min_i -d_i . u, and the share by which it may widen."""

    direction: Array
    gap: float
    slack: float


def max_margin(rows: Array, guess: Array) -> Margin | None:
    """The margin of the rows d_i, from a query with d_i . guess < 0 for all i; None without one."""
    length = float(np.linalg.norm(guess))
    known = -float((rows @ guess).max()) / length if length else 0.0
    if known <= 0:
        return None
    weights = hull_weights(-rows / known)  # divided so that the solution has length at most 1
    if weights is None:
        return None
    normal = -(weights @ rows)
    size = float(np.linalg.norm(normal))
    if size == 0:
        return None
    direction = normal / size
    gap = -float((rows @ direction).max())
    # Any unit vector has a gap of at most ||sum lambda_i d_i||, lambda a distribution.
    widest = size / float(weights.sum())
    return Margin(direction, gap, max(0.0, widest / gap - 1)) if gap > 0 else None


def length_along(rows: Array, level: float, direction: Array) -> float:
    """The smallest a >= 0 with f(a direction) <= level, for a direction along which f decreases."""
    moves = rows @ direction
    low, length = 0.0, 0.0
    for _ in range(_STEPS):
        f, p = log_sum_and_softmax(length * moves)
        excess = f - level
        # f is convex and decreases: Newton from the left never passes the root.
        step = excess / -float(p @ moves)
        if step <= 1e-15 * length:
            break
        low, length = length, length + step
    return max(low, length)


def compare_max_margin(rows: Array, level: float, query: Array) -> dict[str, Any]:
    """The max-margin direction: its gap, the norm it needs, and the ratio to the shortest query."""
    margin = max_margin(rows, query)
    if margin is None:
        low = infimum(rows / largest_norm(rows)) if rows.any() else None
        if low is None or low.kind != "outside" or low.direction is None:
            return {
                "direction": None,
                "reason": "no direction separates a key in the convex hull of the others",
            }
        margin = max_margin(rows, low.direction)
    if margin is None:
        return {"direction": None, "reason": "the margin is smaller than rounding"}
    needed = length_along(rows, level, margin.direction)
    norm = float(np.linalg.norm(query))
    report = {"direction": margin.direction, "gap": margin.gap, "gap_error": margin.slack}
    return {**report, "norm": needed, **({"ratio": needed / norm} if norm else {})}
