"""The infimum of f and its proof: is 0 inside the convex hull of the rows d_i, on it, or outside?

    inf_q log sum_i exp(d_i . q) = max { H(lambda) : sum lambda_i d_i = 0, lambda in the simplex }

inside   0 is in the relative interior of conv(D): attained, at lambda = softmax(D q) > 0
face     0 is on the boundary: lambda lives on the smallest face that contains 0, and f approaches
         its infimum along a direction u with d_i . u = 0 on the face and < 0 off it
outside  there is no such lambda: f falls without bound along any u with d_i . u < 0 for all i

Which of the three holds does not depend on the rows' lengths: `least_face` decides it for unit
rows. Newton on f shows which rows it leaves unchanged. That they form a face is then checked: a
direction u orthogonal to them must have d_i . u < 0 for every other row. Where this fails,
non-negative least squares and then a linear program find the direction.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from attnlab.construct.log_sum_exp import (
    BELOW,
    HALF,
    ROUNDED,
    LogSumExp,
    NewtonResult,
    Point,
    minimise,
)
from attnlab.construct.numerics import (
    EPS,
    Array,
    Mask,
    entropy,
    norm,
    normalise_rows,
    orthonormal_basis,
)

Kind = Literal["inside", "face", "outside"]

_ZERO = 4 * EPS  # a query this short, among rows of length one, is zero but for rounding
_CLEAR = 1e-12  # |d_i . u| / (||d_i|| ||u||) below this counts as zero
_STEPS = 400
_DONE = 1e-9
_NEGLIGIBLE = 1e-100  # a weight below this is set to zero
_SHARE = 0.9  # the largest part of a weight that one step may remove


@dataclass(frozen=True)
class Infimum:
    """The infimum of f, the query at or towards which it lies, and lambda (zero off the face)."""

    kind: Kind
    value: float
    query: Array
    weights: Array
    face: Mask
    change: float  # relative change of lambda that would satisfy the equations exactly
    direction: Array | None = None
    sure: bool = True


def infimum(rows: Array, rounding: float = EPS) -> Infimum:
    """inf f over all queries; scale the rows to length at most one beforehand."""
    n, h = rows.shape
    size, unit = normalise_rows(rows)
    nonzero = size > 0
    face = least_face(unit, rounding)
    on_face, weights = ~nonzero, np.ones(n)
    on_face[nonzero] = face.rows
    if not on_face.any():
        return Infimum("outside", -np.inf, np.zeros(h), np.zeros(n), on_face, 0.0, face.direction)
    weights[nonzero] = face.weights / size[nonzero]  # so that sum w_i d_i = 0 for these rows too
    others = nonzero & on_face
    weights[~nonzero] = weights[others].mean() if others.any() else 1.0
    weights[~on_face] = 0.0
    span = orthonormal_basis(rows[on_face], rounding)
    minimum = attained_infimum(rows[on_face], weights[on_face], span)
    weights[on_face] = minimum.at.p
    return Infimum(
        kind="inside" if on_face.all() else "face",
        value=minimum.at.f,
        query=minimum.at.q,
        weights=weights,
        face=on_face,
        change=minimum.change,
        direction=face.direction,
        sure=face.sure and minimum.inside,
    )


def attained_infimum(rows: Array, weights: Array, span: Array) -> NewtonResult:
    """inf f where it is known to be attained: Newton on q and, where that fails, on lambda."""
    if span.shape[1] == 0:  # every row is zero: f is constant
        flat = LogSumExp(rows).at(np.zeros(rows.shape[1]))
        return NewtonResult(flat, flat.q, 0.0, True)
    reduced = rows @ span
    result = minimise(reduced, np.zeros(span.shape[1]), may_diverge=False)
    if not result.inside and (weights > 0).all():
        lam, q = maximise_entropy(reduced, weights)
        again = minimise(reduced, q, may_diverge=False)
        result = again if again.inside else _result_of_weights(reduced, lam, q)
    q = result.at.q if np.abs(result.at.q).max() > _ZERO else np.zeros_like(result.at.q)
    return result._replace(at=result.at._replace(q=span @ q))


def _result_of_weights(rows: Array, lam: Array, q: Array) -> NewtonResult:
    """lambda as the solution; log lambda - D q would be constant if q were exact."""
    at = Point(q, entropy(lam), lam)
    fit = np.log(lam[lam > 0]) - rows[lam > 0] @ q
    change = float(np.ptp(fit))
    return NewtonResult(at, np.zeros_like(q), change, change < ROUNDED)


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
    length = norm(direction)
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


def maximise_entropy(rows: Array, weights: Array) -> tuple[Array, Array]:
    """(lambda, q) at the optimum, from positive `weights` that satisfy the equations.

    The rows must span all dimensions.
    """
    columns = np.hstack([rows, -np.ones((len(rows), 1))])
    size = np.abs(columns).max(axis=0)
    columns = columns / size
    sums = np.zeros(columns.shape[1])
    sums[-1] = -1.0
    lam = weights / weights.sum()
    fit = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        positive = lam > 0
        now, part = lam[positive], columns[positive]
        fit = _fit(np.sqrt(now)[:, None] * part, np.sqrt(now) * np.log(now), now @ part - sums)
        error = np.log(now) - part @ fit
        step = min(1.0, _SHARE / max(float(error.max()), _SHARE))
        lam[positive] = now * (1 - step * error)
        lam[lam < _NEGLIGIBLE] = 0.0
        if float(np.abs(error).max()) < _DONE:
            break
    return lam, (fit / size)[:-1]


def _fit(matrix: Array, target: Array, residual: Array) -> Array:
    """Solve M^T M y = M^T target - residual by QR, residual being the error of the equations."""
    orthonormal, upper = np.linalg.qr(matrix)
    try:
        rhs = orthonormal.T @ target - np.linalg.solve(upper.T, residual)
        return np.linalg.solve(upper, rhs).astype(np.float64)
    except np.linalg.LinAlgError:  # weights set to zero leave directions undetermined
        return np.linalg.lstsq(matrix, target, rcond=None)[0].astype(np.float64)
