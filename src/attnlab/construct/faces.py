"""The least face of a hull of unit rows that holds 0, and a direction that leads off it.

Newton on f (hull.py) shows which rows it leaves alone; that they are a face is then checked: a
direction u orthogonal to them must have d_i . u < 0 for every other row. Where it is not clear, a
nearest-point problem and a linear program are asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from attnlab.construct.log_sum_exp import EPS, Array, SingleProblem
from attnlab.construct.newton import BELOW, HALF, Mask, NewtonResult, minimise
from attnlab.construct.span import orthonormal_basis

_CLEAR = 1e-12  # |d_i . u| / (||d_i|| ||u||) below this is zero


class Face(NamedTuple):
    """The least face of unit rows that holds 0 (empty: 0 is outside), with lambda > 0 on it.

    `direction` is u, None where 0 is inside; not `sure` where rounding decides.
    """

    face: Mask
    weights: Array
    direction: Array | None
    sure: bool


def least_face(unit: Array, rounding: float = EPS) -> Face:
    """Where 0 lies in the hull of unit rows."""
    face = np.ones(len(unit), bool)
    if not len(unit):
        return Face(face, np.zeros(0), None, True)
    span = orthonormal_basis(unit, rounding)
    reduced = unit @ span
    found = minimise(SingleProblem(reduced), np.zeros((1, span.shape[1])))
    if found.inside[0]:
        return Face(face, found.at.p[0], None, True)
    part, direction = _side(reduced, found, rounding)
    if part is None:
        return Face(face, found.at.p[0], None, False)
    direction = span @ direction
    weights = np.zeros(len(unit))
    if not part.any():
        return Face(part, weights, direction, True)
    inner = least_face(unit[part], rounding)
    face[:] = False
    face[np.flatnonzero(part)[inner.face]] = True
    weights[part] = inner.weights
    return Face(face, weights, _join(unit, direction, inner.direction), inner.sure)


def _side(unit: Array, found: NewtonResult, rounding: float) -> tuple[Mask | None, Array]:
    """The rows of a face and u, by where Newton went, or by a linear program."""
    if found.at.f[0] < -BELOW:
        return np.zeros(len(unit), bool), found.at.q[0] / np.linalg.norm(found.at.q[0])
    part, direction = _separate(unit, found.step[0], rounding)
    if part is None:
        part, direction = _thin(unit, rounding)
    return (part, direction) if part is not None else _separate(unit, _program(unit), rounding)


def _thin(unit: Array, rounding: float) -> tuple[Mask | None, Array]:
    """Outside, though by little: the point of the hull nearest to 0 is then clear of it."""
    from scipy.optimize import nnls

    matrix = np.vstack([unit.T, np.ones(len(unit))])
    target = np.zeros(len(matrix))
    target[-1] = 1.0
    try:
        weights, _ = nnls(matrix, target, maxiter=50 * max(matrix.shape))
    except RuntimeError:  # too many steps
        return None, target[:-1]
    # The nearest point itself is lost in rounding; what is orthogonal to its face is not.
    held = unit[weights > 0]
    direction = np.linalg.lstsq(held, -np.ones(len(held)), rcond=None)[0]
    direction = direction / np.linalg.norm(direction)
    below = (unit @ direction < -max(_CLEAR, 16 * rounding)).all()
    return (np.zeros(len(unit), bool) if below else None), direction


def _join(unit: Array, outer: Array, inner: Array | None) -> Array:
    """outer + a part of inner so small that the rows below zero stay there."""
    if inner is None:
        return outer
    lead, rise = -(unit @ outer), unit @ inner
    risky = (lead > _CLEAR) & (rise > 0)
    share = 0.5 * float((lead[risky] / rise[risky]).min()) if risky.any() else 1.0
    return outer + share * inner


def _separate(unit: Array, step: Array | None, rounding: float) -> tuple[Mask | None, Array]:
    """(face, u): u is orthogonal to the rows that `step` leaves alone, below zero on the rest."""
    if step is None:
        return None, np.zeros(unit.shape[1])
    face = unit @ step > -HALF
    across = orthonormal_basis(unit[face], rounding)
    direction = step - across @ (across.T @ step)
    direction = direction - across @ (across.T @ direction)
    length = float(np.linalg.norm(direction))
    if length == 0 or face.all():
        return None, direction
    direction = direction / length
    clear = max(_CLEAR, 16 * rounding)
    return (face if (unit[~face] @ direction < -clear).all() else None), direction


def _program(unit: Array) -> Array | None:
    """max sum s_i, d_i . u + s_i <= 0, 0 <= s <= 1: s_i = 1 exactly for the rows off the face."""
    from scipy.optimize import linprog

    m, r = unit.shape
    found = linprog(
        np.r_[np.zeros(r), -np.ones(m)],
        A_ub=np.hstack([unit, np.eye(m)]),
        b_ub=np.zeros(m),
        bounds=[(None, None)] * r + [(0, 1)] * m,
        method="highs",
    )
    if found.x is None or not (found.x[r:] > HALF).any():
        return None
    return found.x[:r]
