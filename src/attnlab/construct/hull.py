"""inf f and its proof: is 0 in the hull of the rows d_i, inside it, on its edge, or outside?

    inf_q log sum_i exp(d_i . q) = max { H(lambda) : sum lambda_i d_i = 0, lambda in the simplex }

inside   0 in the relative interior of conv(D): attained, at lambda = softmax(D q) > 0
face     on the boundary: lambda lives on the least face that holds 0, f only approaches its
         infimum, along a direction u with d_i . u = 0 on the face and < 0 off it
outside  no such lambda: f falls without end along any u with d_i . u < 0 for all i

Which of the three it is does not depend on the rows' lengths: facing.py asks it of unit rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from attnlab.construct.entropy import entropy, maximise_entropy
from attnlab.construct.faces import least_face
from attnlab.construct.log_sum_exp import EPS, Array, Point, SingleProblem, evaluate
from attnlab.construct.newton import ROUNDED, Mask, NewtonResult, minimise
from attnlab.construct.span import normalise_rows, orthonormal_basis

Kind = Literal["inside", "face", "outside"]

_NOTHING = 4 * EPS  # of a query among rows of length one: rounding of zero


@dataclass(frozen=True)
class Infimum:
    """The infimum of f, where it is, and lambda (zero off the face)."""

    kind: Kind
    value: float
    query: Array
    weights: Array
    face: Mask
    change: float  # relative change of lambda that would solve the equations exactly
    direction: Array | None = None
    sure: bool = True


def infimum(rows: Array, rounding: float = EPS) -> Infimum:
    """inf f over all queries; the rows are best scaled to length one at most."""
    n, h = rows.shape
    size, unit = normalise_rows(rows)
    live = size > 0
    held = least_face(unit, rounding)
    face, weights = ~live, np.ones(n)
    face[live] = held.face
    if not face.any():
        return Infimum("outside", -np.inf, np.zeros(h), np.zeros(n), face, 0.0, held.direction)
    weights[live] = held.weights / size[live]  # sum w_i d_i = 0 for these rows too
    weights[~live] = weights[live & face].mean() if (live & face).any() else 1.0
    weights[~face] = 0.0
    found = attained_infimum(rows[face], weights[face], orthonormal_basis(rows[face], rounding))
    weights[face] = found.at.p[0]
    return Infimum(
        kind="inside" if face.all() else "face",
        value=float(found.at.f[0]),
        query=found.at.q[0],
        weights=weights,
        face=face,
        change=float(found.change[0]),
        direction=held.direction,
        sure=held.sure and bool(found.inside[0]),
    )


def interior_infimum(found: NewtonResult) -> Infimum:
    """The lowest point that one Newton descent found inside the hull."""
    at, face = found.at, np.ones(found.at.p.shape[1], bool)
    return Infimum("inside", float(at.f[0]), at.q[0], at.p[0], face, float(found.change[0]))


def attained_infimum(rows: Array, weights: Array, span: Array) -> NewtonResult:
    """inf f where it is known to be attained: Newton on q, or where that fails on lambda."""
    if span.shape[1] == 0:  # every row is zero: f is constant
        flat = evaluate(SingleProblem(rows), np.zeros((1, rows.shape[1])))
        return NewtonResult(flat, flat.q, np.zeros(1), np.ones(1, bool))
    reduced = SingleProblem(rows @ span)
    found = minimise(reduced, np.zeros((1, span.shape[1])), open_ended=False)
    if not found.inside[0] and (weights > 0).all():
        lam, q = maximise_entropy(reduced.rows, weights)
        again = minimise(reduced, q[None], open_ended=False)
        found = again if again.inside[0] else _from_weights(reduced, lam, q)
    q = found.at.q if np.abs(found.at.q).max() > _NOTHING else np.zeros_like(found.at.q)
    return found._replace(at=found.at._replace(q=q @ span.T))


def _from_weights(excess: SingleProblem, lam: Array, q: Array) -> NewtonResult:
    """lambda as the answer; how far log lambda - D q is from constant is how far q is from it."""
    at = Point(q[None], np.array([entropy(lam)]), lam[None])
    fit = np.log(lam[lam > 0]) - excess.rows[lam > 0] @ q
    change = np.array([float(np.ptp(fit))])
    return NewtonResult(at, np.zeros_like(at.q), change, change < ROUNDED)
