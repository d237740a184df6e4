"""The infimum of f and its proof: is 0 inside the convex hull of the rows d_i, on it, or outside?

    inf_q log sum_i exp(d_i . q) = max { H(lambda) : sum lambda_i d_i = 0, lambda in the simplex }

inside   0 is in the relative interior of conv(D): attained, at lambda = softmax(D q) > 0
face     0 is on the boundary: lambda lives on the smallest face that contains 0, and f approaches
         its infimum along a direction u with d_i . u = 0 on the face and < 0 off it
outside  there is no such lambda: f falls without bound along any u with d_i . u < 0 for all i

Which of the three holds does not depend on the rows' lengths: faces.py decides it for unit rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnlab.construct.entropy import maximise_entropy
from attnlab.construct.faces import least_face
from attnlab.construct.log_sum_exp import Point, SingleProblem, evaluate
from attnlab.construct.newton import ROUNDED, NewtonResult, minimise
from attnlab.construct.numerics import EPS, Array, Mask, entropy
from attnlab.construct.span import normalise_rows, orthonormal_basis

Kind = Literal["inside", "face", "outside"]

_ZERO = 4 * EPS  # a query this short, among rows of length one, is zero but for rounding


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
    weights[on_face] = minimum.at.p[0]
    return Infimum(
        kind="inside" if on_face.all() else "face",
        value=float(minimum.at.f[0]),
        query=minimum.at.q[0],
        weights=weights,
        face=on_face,
        change=float(minimum.change[0]),
        direction=face.direction,
        sure=face.sure and bool(minimum.inside[0]),
    )


def interior_infimum(newton: NewtonResult) -> Infimum:
    """The infimum where Newton on a single problem has converged inside the hull."""
    at, face = newton.at, np.ones(newton.at.p.shape[1], bool)
    return Infimum("inside", float(at.f[0]), at.q[0], at.p[0], face, float(newton.change[0]))


def attained_infimum(rows: Array, weights: Array, span: Array) -> NewtonResult:
    """inf f where it is known to be attained: Newton on q and, where that fails, on lambda."""
    if span.shape[1] == 0:  # every row is zero: f is constant
        flat = evaluate(SingleProblem(rows), np.zeros((1, rows.shape[1])))
        return NewtonResult(flat, flat.q, np.zeros(1), np.ones(1, bool))
    reduced = SingleProblem(rows @ span)
    result = minimise(reduced, np.zeros((1, span.shape[1])), may_diverge=False)
    if not result.inside[0] and (weights > 0).all():
        lam, q = maximise_entropy(reduced.rows, weights)
        again = minimise(reduced, q[None], may_diverge=False)
        result = again if again.inside[0] else _result_of_weights(reduced, lam, q)
    q = result.at.q if np.abs(result.at.q).max() > _ZERO else np.zeros_like(result.at.q)
    return result._replace(at=result.at._replace(q=q @ span.T))


def _result_of_weights(objective: SingleProblem, lam: Array, q: Array) -> NewtonResult:
    """lambda as the solution; log lambda - D q would be constant if q were exact."""
    at = Point(q[None], np.array([entropy(lam)]), lam[None])
    fit = np.log(lam[lam > 0]) - objective.rows[lam > 0] @ q
    change = np.array([float(np.ptp(fit))])
    return NewtonResult(at, np.zeros_like(at.q), change, change < ROUNDED)
