"""M (v_a + v_b) / 2 = v_a for every v_a in span A, v_b in span B: M = 2 P, P onto A along B.

    P = U W^+,  U an orthonormal basis of span A,  W = U less its projection on span B

    orthogonal spans   M = 2 U U^T
    in general         |M| = 2 / sin(theta), theta the least angle between the spans
    a shared x != 0    impossible: v_a = x, v_b = 0 and v_a = 0, v_b = x have the same mean

Outside span A + span B nothing is asked of M; it is 0 there, which keeps its norm least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.inputs import check_numbers
from attnlab.construct.result import Construction, plain
from attnlab.core.errors import UsageError

Array = NDArray[np.float64]

_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True, eq=False)
class Extraction(Construction):
    """A construction whose answer is a matrix; `norm` is its largest singular value."""

    matrix: Array | None = None

    def as_json(self) -> dict[str, Any]:
        """The matrix first, then what every construction says."""
        found = {} if self.matrix is None else {"matrix": plain(self.matrix)}
        return {**found, **super().as_json()}


def extract(basis_a: Any, basis_b: Any, columns: bool = False) -> Extraction:
    """The matrix that returns v_a from the mean of v_a and v_b, or the vector both spans share.

    Each ROW of a basis is one of its vectors (with `columns`, each column); they need be neither
    orthonormal nor independent. `residual` is the largest |M (a + b)/2 - a| over the given vectors
    of length 1; a vector counts as shared where the angle is lost to rounding.
    """
    a, b = _rows(basis_a, "basis A", columns), _rows(basis_b, "basis B", columns)
    if a.shape[1] != b.shape[1]:
        raise UsageError(f"the vectors of A have {a.shape[1]} entries, those of B {b.shape[1]}")
    span_a, shaky_a = _orthonormal(a)
    span_b, shaky_b = _orthonormal(b)
    rest = _less(span_a, span_b)
    left, sines, right = np.linalg.svd(rest, full_matrices=False)
    lost = 16 * _ROUNDING * max(a.shape[1], 4) * max(shaky_a, shaky_b)
    if sines.size and sines[-1] <= lost:
        return _shared(a, b, span_a @ right[-1], float(sines[-1]))
    inverse = right.T / sines @ left.T if sines.size else np.zeros((0, a.shape[1]))
    return _found(a, b, 2 * span_a @ inverse, sines)


def _rows(given: Any, name: str, columns: bool) -> Array:
    """One vector a row; a single vector is a basis of one."""
    found = check_numbers(given, name)
    found = found[None] if found.ndim == 1 else found
    if found.ndim != 2 or 0 in found.shape:
        raise UsageError(f"{name} must be a matrix, one row a vector: got shape {found.shape}")
    return found.T.copy() if columns else found


def _orthonormal(rows: Array) -> tuple[Array, float]:
    """Columns that span the rows, and how much rounding their directions may have picked up."""
    sizes = np.linalg.norm(rows, axis=1)
    unit = rows[sizes > 0] / sizes[sizes > 0, None]
    if not len(unit):
        return np.zeros((rows.shape[1], 0)), 1.0
    _, values, directions = np.linalg.svd(unit, full_matrices=False)
    kept = values > values[0] * _ROUNDING * 4 * max(unit.shape)
    return directions[kept].T, float(values[0] / values[kept][-1])


def _less(span: Array, other: Array) -> Array:
    """What is left of each column across the other span; twice, against rounding."""
    once = span - other @ (other.T @ span)
    return once - other @ (other.T @ once)


def _shared(a: Array, b: Array, vector: Array, sine: float) -> Extraction:
    """The certificate: x = sum of A's vectors = sum of B's vectors, with both lists of factors."""
    in_a = np.linalg.lstsq(a.T, vector, rcond=None)[0]
    in_b = np.linalg.lstsq(b.T, vector, rcond=None)[0]
    off = max(np.abs(in_a @ a - vector).max(), np.abs(in_b @ b - vector).max())
    certificate = {"kind": "shared-vector", "vector": vector, "in_a": in_a, "in_b": in_b}
    return Extraction(
        feasible=False,
        why="Both spans contain the vector of the certificate: (x + 0)/2 and (0 + x)/2 are the same"
        " mean, and no matrix can tell which of the two x came from.",
        certificate={**certificate, "residual": float(off)},
        residual=float(off),
        also={"sine": sine, "angle_degrees": math.degrees(math.asin(min(sine, 1.0)))},
    )


def _found(a: Array, b: Array, matrix: Array, sines: Array) -> Extraction:
    """The matrix, its norm 2 / sin(theta) and what it costs."""
    sine = float(sines[-1]) if sines.size else 1.0
    sine = min(sine, 1.0)
    angle = math.degrees(math.asin(sine))
    norm = 2 / sine if sines.size else 0.0
    square = sine > 1 - 1e-12
    how = (
        "The spans are orthogonal: M = 2 A A^T (A orthonormal)"
        if square
        else (
            f"The spans meet at {angle:.4g} degrees: M is twice the projector on A along B,"
            f" and may enlarge an error {norm:.4g} times"
        )
    )
    return Extraction(
        feasible=True,
        why=f"{how}.",
        matrix=matrix,
        norm=norm,
        residual=_residual(a, b, matrix),
        also={
            "angle_degrees": angle,
            "sine": sine,
            "condition": float(sines[0]) / sine if sines.size else 1.0,
            "joint_condition": (1 + _cosine(sine)) / sine,
            "orthogonal": square,
            "rank_a": int(sines.size),
        },
    )


def _cosine(sine: float) -> float:
    return math.sqrt((1 - sine) * (1 + sine))


def _residual(a: Array, b: Array, matrix: Array) -> float:
    """Largest entry of M a/2 - a and M b/2, over the given vectors made unit length."""
    off = 0.0
    for rows, kept in ((a, 1.0), (b, 0.0)):
        sizes = np.linalg.norm(rows, axis=1)
        unit = rows[sizes > 0] / sizes[sizes > 0, None]
        if len(unit):
            off = max(off, float(np.abs(unit @ matrix.T / 2 - kept * unit).max()))
    return off
