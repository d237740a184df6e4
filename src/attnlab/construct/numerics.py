"""Array types, functions of scores and weights, and bases of the span of some rows."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

EPS = float(np.finfo(np.float64).eps)


def log_sum_exp(scores: Array) -> float:
    """log(sum_i exp(score_i)), shifted by the largest score so that it cannot overflow."""
    top = float(scores.max())
    return top + math.log(float(np.exp(scores - top).sum()))


def softmax(scores: Array) -> Array:
    """exp(score_i) / sum_j exp(score_j), shifted by the largest score."""
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def entropy(p: Array) -> float:
    """-sum_i p_i log(p_i) in nats, with 0 log 0 = 0."""
    positive = p[p > 0]
    return -float((positive * np.log(positive)).sum())


def sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)), accurate in both tails."""
    if x >= 0:
        return 1 / (1 + math.exp(-x)) if x < 700 else 1.0
    return math.exp(x) / (1 + math.exp(x))  # underflows to 0, never overflows


def logit(weight: float, rest: float) -> float:
    """log(weight / rest); the caller passes rest = 1 - weight so that neither is rounded away."""
    if weight <= 0:
        return -math.inf
    return math.log(weight) - math.log(rest) if rest > 0 else math.inf


def norm(vector: Array) -> float:
    """The Euclidean norm as a Python float."""
    return float(np.linalg.norm(vector))


def largest_norm(rows: Array) -> float:
    """The length of the longest row, computed without overflow."""
    size = float(np.abs(rows).max(initial=0.0))
    return size * float(np.linalg.norm(rows / size, axis=1).max()) if size else 0.0


def normalise_rows(rows: Array) -> tuple[Array, Array]:
    """The length of every row, and the non-zero rows scaled to length one."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    nonzero = largest > 0
    scaled = rows[nonzero] / largest[nonzero, None]
    length = np.linalg.norm(scaled, axis=1)
    size = np.zeros(len(rows))
    size[nonzero] = largest[nonzero] * length
    return size, scaled / length[:, None]


def orthonormal_basis(rows: Array, rounding: float = EPS) -> Array:
    """Orthonormal columns that span the rows, whatever their lengths.

    `rounding` is the relative error of a row: smaller singular values count as zero.
    """
    return basis_and_condition(normalise_rows(rows)[1], rounding)[0]


def basis_and_condition(unit: Array, rounding: float = EPS) -> tuple[Array, float]:
    """The basis of rows of length one, and by how much its relative error may exceed theirs."""
    if not unit.size:
        return np.zeros((unit.shape[1], 0)), 1.0
    _, sizes, directions = np.linalg.svd(unit, full_matrices=False)
    rank = int((sizes > max(unit.shape) * rounding * sizes[0]).sum())
    return directions[:rank].T, float(sizes[0] / sizes[rank - 1])
