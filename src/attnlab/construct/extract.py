"""extract: the matrix M with M (v_a + v_b) / 2 = v_a for every v_a in span A and v_b in span B.

    M = 2 P, P = U W^+ the projector onto A along B: U is an orthonormal basis of span A, and W is
    U minus its projection on span B

    orthogonal spans   M = 2 U U^T
    in general         |M| = 2 / sin(theta), theta the smallest angle between the spans
    a shared x != 0    impossible: v_a = x, v_b = 0 and v_a = 0, v_b = x have the same mean

On vectors orthogonal to both spans M is 0, which gives it the smallest norm.
"""

import math
from typing import Any

import numpy as np

from attnlab.construct.inputs import check_numbers
from attnlab.construct.numerics import EPS, Array, basis_and_condition
from attnlab.construct.result import Construction
from attnlab.core.errors import UsageError


def extract(basis_a: Any, basis_b: Any, columns: bool = False) -> Construction:
    """The matrix that returns v_a from the mean of v_a and v_b, or a vector that both spans share.

    Each ROW of a basis is one of its vectors (with `columns`, each column); they need be neither
    orthonormal nor independent. `residual` is the largest |M (a + b)/2 - a| over the given vectors
    scaled to length 1. A vector counts as shared where the angle is as small as rounding.
    """
    a, b = _rows(basis_a, "basis A", columns), _rows(basis_b, "basis B", columns)
    if a.shape[1] != b.shape[1]:
        raise UsageError(f"the vectors of A have {a.shape[1]} entries but those of B {b.shape[1]}")
    span_a, condition_a = basis_and_condition(_scale_to_unit(a), 4 * EPS)
    span_b, condition_b = basis_and_condition(_scale_to_unit(b), 4 * EPS)
    left, sines, right = np.linalg.svd(_project_out(span_a, span_b), full_matrices=False)
    rounding = 16 * EPS * max(a.shape[1], 4) * max(condition_a, condition_b)
    if sines.size and sines[-1] <= rounding:
        return _describe_shared_vector(a, b, span_a @ right[-1], float(sines[-1]))
    inverse = right.T / sines @ left.T if sines.size else np.zeros((0, a.shape[1]))
    return _describe_matrix(a, b, 2 * span_a @ inverse, sines)


def _rows(given: Any, name: str, columns: bool) -> Array:
    """The basis with one vector per row; a single vector is a basis of one."""
    rows = check_numbers(given, name)
    rows = rows[None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or 0 in rows.shape:
        raise UsageError(f"{name} must be a matrix with one vector per row: got shape {rows.shape}")
    return rows.T.copy() if columns else rows


def _scale_to_unit(rows: Array) -> Array:
    """The non-zero rows, scaled to length one."""
    sizes = np.linalg.norm(rows, axis=1)
    return rows[sizes > 0] / sizes[sizes > 0, None]


def _project_out(span: Array, other: Array) -> Array:
    """Each column minus its projection on the other span; done twice to remove rounding."""
    once = span - other @ (other.T @ span)
    return once - other @ (other.T @ once)


def _describe_shared_vector(a: Array, b: Array, vector: Array, sine: float) -> Construction:
    """The certificate: a vector x with its coefficients in A and in B."""
    in_a = np.linalg.lstsq(a.T, vector, rcond=None)[0]
    in_b = np.linalg.lstsq(b.T, vector, rcond=None)[0]
    residual = float(max(np.abs(in_a @ a - vector).max(), np.abs(in_b @ b - vector).max()))
    certificate = {"kind": "shared-vector", "vector": vector, "in_a": in_a, "in_b": in_b}
    return Construction(
        feasible=False,
        why="Both spans contain the vector x of the certificate: (x + 0)/2 and (0 + x)/2 are the"
        " same mean, and no matrix can tell from which span x came.",
        certificate={**certificate, "residual": residual},
        residual=residual,
        also={"sine": sine, "angle_degrees": math.degrees(math.asin(min(sine, 1.0)))},
    )


def _describe_matrix(a: Array, b: Array, matrix: Array, sines: Array) -> Construction:
    """The matrix with its norm 2 / sin(theta), by which it can amplify an error."""
    sine = min(float(sines[-1]) if sines.size else 1.0, 1.0)
    angle = math.degrees(math.asin(sine))
    norm = 2 / sine if sines.size else 0.0
    orthogonal = sine > 1 - 1e-12
    why = "The spans are orthogonal: M = 2 A A^T with orthonormal columns A."
    if not orthogonal:
        why = (
            f"The spans meet at {angle:.4g} degrees: M is twice the projector onto A along B,"
            f" and can amplify an error {norm:.4g} times."
        )
    return Construction(
        feasible=True,
        why=why,
        matrix=matrix,
        norm=norm,
        residual=_residual(a, b, matrix),
        also={
            "angle_degrees": angle,
            "sine": sine,
            "condition": float(sines[0]) / sine if sines.size else 1.0,
            "joint_condition": (1 + math.sqrt((1 - sine) * (1 + sine))) / sine,
            "orthogonal": orthogonal,
            "rank_a": int(sines.size),
        },
    )


def _residual(a: Array, b: Array, matrix: Array) -> float:
    """The largest entry of M a/2 - a and M b/2 over the given vectors, scaled to length one."""
    residual = 0.0
    for rows, factor in ((a, 1.0), (b, 0.0)):
        unit = _scale_to_unit(rows)
        if len(unit):
            residual = max(residual, float(np.abs(unit @ matrix.T / 2 - factor * unit).max()))
    return residual
