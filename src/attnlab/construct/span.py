"""Orthonormal bases of the span of some rows, independent of the rows' lengths."""

from __future__ import annotations

import numpy as np

from attnlab.construct.numerics import EPS, Array


def orthonormal_basis(rows: Array, rounding: float = EPS) -> Array:
    """Orthonormal columns that span the rows, each row first scaled to length one.

    `rounding` is the relative error of a row: smaller singular values count as zero.
    """
    return basis_and_condition(rows, rounding)[0]


def basis_and_condition(rows: Array, rounding: float = EPS) -> tuple[Array, float]:
    """The basis, and the factor by which its relative error may exceed that of a row."""
    return basis_of_unit_rows(normalise_rows(rows)[1], rounding)


def basis_of_unit_rows(unit: Array, rounding: float) -> tuple[Array, float]:
    """`basis_and_condition` of rows that have length one already."""
    if not unit.size:
        return np.zeros((unit.shape[1], 0)), 1.0
    _, sizes, directions = np.linalg.svd(unit, full_matrices=False)
    rank = int((sizes > max(unit.shape) * rounding * sizes[0]).sum())
    return directions[:rank].T, float(sizes[0] / sizes[rank - 1])


def normalise_rows(rows: Array) -> tuple[Array, Array]:
    """The length of every row, and the non-zero rows scaled to length one."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    nonzero = largest > 0
    scaled = rows[nonzero] / largest[nonzero, None]
    length = np.linalg.norm(scaled, axis=1)
    size = np.zeros(len(rows))
    size[nonzero] = largest[nonzero] * length
    return size, scaled / length[:, None]
