"""The directions that rows span, whatever their lengths."""

from __future__ import annotations

import numpy as np

from attnlab.construct.log_sum_exp import EPS, Array


def orthonormal_basis(rows: Array, rounding: float = EPS) -> Array:
    """Orthonormal columns that span the rows, each row first brought to length one.

    `rounding` is the relative error of a row: a direction that small is no direction.
    """
    return basis_and_condition(rows, rounding)[0]


def basis_and_condition(rows: Array, rounding: float = EPS) -> tuple[Array, float]:
    """The basis, and how many times larger than a row's its own relative error may be."""
    unit = normalise_rows(rows)[1]
    if not unit.size:
        return np.zeros((rows.shape[1], 0)), 1.0
    _, sizes, across = np.linalg.svd(unit, full_matrices=False)
    rank = int((sizes > max(unit.shape) * rounding * sizes[0]).sum())
    return across[:rank].T, float(sizes[0] / sizes[rank - 1])


def normalise_rows(rows: Array) -> tuple[Array, Array]:
    """The rows' lengths, and those that are not zero brought to length one."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    live = largest > 0
    scaled = rows[live] / largest[live, None]
    length = np.linalg.norm(scaled, axis=1)
    size = np.zeros(len(rows))
    size[live] = largest[live] * length
    return size, scaled / length[:, None]
