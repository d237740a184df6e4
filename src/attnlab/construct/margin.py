"""The max-margin direction: min ||u|| subject to (k_wanted - k_i) . u >= 1 for every other key.

It is what the shortest query turns to as its weight goes to 1; at a finite weight another query is
shorter. Solved as a non-negative least-squares problem (Lawson and Hanson 1974, chapter 23).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attnlab.construct.hull import infimum
from attnlab.construct.log_sum_exp import Array, log_sum_and_softmax
from attnlab.construct.min_norm import largest_norm

_STEPS = 200


class Margin(NamedTuple):
    """direction of length 1, gap = min_i -d_i . direction, and how much wider it could be."""

    direction: Array
    gap: float
    slack: float


def max_margin(rows: Array, guess: Array) -> Margin | None:
    """From rows d_i and any query that is below zero on all of them; None if it is not."""
    from scipy.optimize import nnls

    length = float(np.linalg.norm(guess))
    known = -float((rows @ guess).max()) / length if length else 0.0
    if known <= 0:
        return None
    matrix = np.vstack([-rows.T / known, np.ones(len(rows))])  # the solution has length 1 at most
    target = np.zeros(len(matrix))
    target[-1] = 1.0
    try:
        weights, _ = nnls(matrix, target, maxiter=50 * max(matrix.shape))
    except RuntimeError:  # too many steps
        return None
    pull = -(weights @ rows)
    size = float(np.linalg.norm(pull))
    if size == 0:
        return None
    direction = pull / size
    gap = -float((rows @ direction).max())
    # Any unit vector has a gap of at most ||sum lambda_i d_i||, lambda a distribution.
    widest = size / float(weights.sum())
    return Margin(direction, gap, max(0.0, widest / gap - 1)) if gap > 0 else None


def length_along(rows: Array, level: float, direction: Array) -> float:
    """The least a >= 0 with f(a direction) <= level; f falls along the whole ray."""
    moves = rows @ direction
    low, length = 0.0, 0.0
    for _ in range(_STEPS):
        f, p = log_sum_and_softmax((length * moves)[None])
        miss = float(f[0]) - level
        # f is convex and falls: Newton from the left never passes the root.
        step = miss / -float(p[0] @ moves)
        if step <= 1e-15 * length:
            break
        low, length = length, length + step
    return max(low, length)


def compare_max_margin(rows: Array, level: float, query: Array) -> dict[str, Any]:
    """What `also` says of the max-margin direction: its gap, the norm it needs, and the ratio."""
    found = max_margin(rows, query)
    if found is None:
        low = infimum(rows / largest_norm(rows)) if rows.any() else None
        if low is None or low.kind != "outside" or low.direction is None:
            return {"direction": None, "reason": "in the hull of the others no direction leads"}
        found = max_margin(rows, low.direction)
    if found is None:
        return {"direction": None, "reason": "the margin is lost in rounding"}
    needed = length_along(rows, level, found.direction)
    norm = float(np.linalg.norm(query))
    answer = {"direction": found.direction, "gap": found.gap, "gap_error": found.slack}
    return {**answer, "norm": needed, **({"ratio": needed / norm} if norm else {})}
