"""The smallest face of the convex hull of unit rows that contains 0, and a direction away from it.

Newton on f (newton.py) shows which rows it leaves unchanged. That they form a face is then checked:
a direction u orthogonal to them must have d_i . u < 0 for every other row. Where this fails,
non-negative least squares and then a linear program find the direction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnlab.construct.newton import BELOW, HALF, NewtonResult, minimise
from attnlab.construct.numerics import EPS, Array, Mask
from attnlab.construct.span import orthonormal_basis

_CLEAR = 1e-12  # |d_i . u| / (||d_i|| ||u||) below this counts as zero


class Face(NamedTuple):
    """The rows of the face (none where 0 is outside the hull), and lambda > 0 on them.

    `direction` is u, or None where 0 is inside; `sure` is False where rounding decides.
    """

    rows: Mask
    weights: Array
    direction: Array | None
    sure: bool


def least_face(unit: Array, rounding: float = EPS) -> Face:
    """The smallest face of the hull of these unit rows that contains 0."""
    rows = np.ones(len(unit), bool)
    if not len(unit):
        return Face(rows, np.zeros(0), None, True)
    span = orthonormal_basis(unit, rounding)
    reduced = unit @ span
    newton = minimise(reduced, np.zeros(span.shape[1]))
    if newton.inside:
        return Face(rows, newton.at.p, None, True)
    part, direction = _separate(reduced, newton, rounding)
    if part is None:
        return Face(rows, newton.at.p, None, False)
    direction = span @ direction
    weights = np.zeros(len(unit))
    if not part.any():
        return Face(part, weights, direction, True)
    inner = least_face(unit[part], rounding)
    rows[:] = False
    rows[np.flatnonzero(part)[inner.rows]] = True
    weights[part] = inner.weights
    return Face(rows, weights, _combine(unit, direction, inner.direction), inner.sure)


def _separate(unit: Array, newton: NewtonResult, rounding: float) -> tuple[Mask | None, Array]:
    """The rows of a face and u: from Newton's last step, least squares or a linear program."""
    if newton.at.f < -BELOW:
        return np.zeros(len(unit), bool), newton.at.q / np.linalg.norm(newton.at.q)
    part, direction = _check_step(unit, newton.step, rounding)
    if part is None:
        part, direction = _nearest_point(unit, rounding)
    if part is None:
        part, direction = _check_step(unit, _linear_program(unit), rounding)
    return part, direction


def _nearest_point(unit: Array, rounding: float) -> tuple[Mask | None, Array]:
    """u from the point of the hull nearest to 0, for 0 outside the hull by a small distance."""
    weights = hull_weights(unit)
    if weights is None:
        return None, np.zeros(unit.shape[1])
    # The nearest point itself is lost in rounding; the direction orthogonal to its face is not.
    nearest = unit[weights > 0]
    direction = np.linalg.lstsq(nearest, -np.ones(len(nearest)), rcond=None)[0]
    direction = direction / np.linalg.norm(direction)
    below = (unit @ direction < -max(_CLEAR, 16 * rounding)).all()
    return (np.zeros(len(unit), bool) if below else None), direction


def hull_weights(rows: Array) -> Array | None:
    """lambda >= 0, up to a factor, of the point sum lambda_i row_i of the hull nearest to 0.

    Non-negative least squares for the equations sum lambda_i row_i = 0 and sum lambda_i = 1;
    None where it needs too many iterations.
    """
    from scipy.optimize import nnls

    matrix = np.vstack([rows.T, np.ones(len(rows))])
    target = np.zeros(len(matrix))
    target[-1] = 1.0
    try:
        return nnls(matrix, target, maxiter=50 * max(matrix.shape))[0]
    except RuntimeError:
        return None


def _combine(unit: Array, outer: Array, inner: Array | None) -> Array:
    """outer plus so small a part of inner that every negative score stays negative."""
    if inner is None:
        return outer
    depth, rise = -(unit @ outer), unit @ inner
    risky = (depth > _CLEAR) & (rise > 0)
    share = 0.5 * float((depth[risky] / rise[risky]).min()) if risky.any() else 1.0
    return outer + share * inner


def _check_step(unit: Array, step: Array | None, rounding: float) -> tuple[Mask | None, Array]:
    """(face, u): u orthogonal to the rows that `step` leaves unchanged, negative on the others."""
    if step is None:
        return None, np.zeros(unit.shape[1])
    face = unit @ step > -HALF
    span = orthonormal_basis(unit[face], rounding)
    direction = step - span @ (span.T @ step)
    direction = direction - span @ (span.T @ direction)
    length = float(np.linalg.norm(direction))
    if length == 0 or face.all():
        return None, direction
    direction = direction / length
    clear, scores = max(_CLEAR, 16 * rounding), unit @ direction
    # Where the face spans everything, the direction is rounding: its scores on the face are not 0.
    separates = (scores[~face] < -clear).all() and (np.abs(scores[face]) <= clear).all()
    return (face if separates else None), direction


def _linear_program(unit: Array) -> Array | None:
    """max sum s_i with d_i . u + s_i <= 0, 0 <= s <= 1: s_i = 1 exactly for rows off the face."""
    from scipy.optimize import linprog

    m, r = unit.shape
    solution = linprog(
        np.r_[np.zeros(r), -np.ones(m)],
        A_ub=np.hstack([unit, np.eye(m)]),
        b_ub=np.zeros(m),
        bounds=[(None, None)] * r + [(0, 1)] * m,
        method="highs",
    )
    if solution.x is None or not (solution.x[r:] > HALF).any():
        return None
    return solution.x[:r]
