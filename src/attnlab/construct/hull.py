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
from attnlab.construct.log_sum_exp import LogSumExp, Point
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
