"""Check keys, values, weights and scale, and compute attention = softmax(scale * K q)."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.construct.numerics import Array, softmax
from attnlab.core.errors import UsageError

Scale = str | float

# Beyond these the square of a norm, or of the query that it needs, does not fit in a double.
LARGEST, SMALLEST = 1e100, 1e-100


@dataclass(frozen=True, eq=False)
class AttentionInputs:
    """Checked keys (n, h), the factor of the scores and, if given, one value per key."""

    keys: Array
    scale: float
    values: Array | None

    @staticmethod
    def check(keys: Any, scale: Scale = 1.0, values: Any = None) -> AttentionInputs:
        """Raise UsageError unless the keys, the scale and the values fit together."""
        checked_keys = check_matrix(keys, "keys")
        n, h = checked_keys.shape
        factor = resolve_scale(scale, h)
        matrix = None if values is None else check_matrix(values, "values")
        if matrix is not None and len(matrix) != n:
            raise UsageError(f"there are {n} keys but {len(matrix)} values: give one value per key")
        return AttentionInputs(checked_keys, factor, matrix)

    def weights(self, query: Array) -> Array:
        """The attention of this query over the keys."""
        return attention_weights(self.keys, query, self.scale)

    def output(self, weights: Array) -> Array | None:
        """weights @ V, or None where no values were given."""
        return None if self.values is None else weights @ self.values


def attention_weights(keys: Array, query: Array, scale: Scale = 1.0) -> Array:
    """softmax(scale * K q), computed from differences to the key with the highest score.

    k_i - k_top is rounded once, relative to itself: keys that share a large offset lose no digits.
    """
    factor = resolve_scale(scale, keys.shape[1])
    top = keys[int(np.argmax(keys @ query))]
    return softmax(factor * ((keys - top) @ query))


def resolve_scale(scale: Scale, h: int) -> float:
    """The factor of the scores: 1/sqrt(h) for "sqrt", otherwise the positive number given."""
    if scale == "sqrt":
        return 1 / math.sqrt(h)
    factor = _to_float(scale)
    if not math.sqrt(SMALLEST) <= factor <= math.sqrt(LARGEST):
        raise UsageError(f"scale must be 1, sqrt or a positive number: got {scale!r}")
    return factor


def check_vector(vector: Any, size: int, name: str) -> Array:
    """A vector of this length; a matrix with a single row or column counts as a vector."""
    numbers = check_numbers(vector, name)
    if numbers.ndim == 2 and 1 in numbers.shape:
        numbers = numbers.reshape(-1)
    if numbers.ndim != 1 or numbers.size != size:
        shape = " x ".join(map(str, numbers.shape)) or "a single number"
        raise UsageError(f"the {name} must be {size} numbers: got {shape}")
    return numbers


def check_index(index: Any, n: int) -> int:
    """The index of one of n keys, counted from 0."""
    try:
        value = operator.index(index)
    except TypeError:
        raise UsageError(f"an index is a whole number from 0: got {index!r}") from None
    if not 0 <= value < n:
        raise UsageError(f"there are {n} keys, numbered from 0 to {n - 1}: got {value}")
    return value


def check_pair(pair: Iterable[Any], n: int) -> tuple[int, int]:
    """The indices of two different keys, in the order given."""
    indices = [check_index(index, n) for index in pair]
    if len(indices) != 2 or indices[0] == indices[1]:
        raise UsageError(f"name two different keys: got {', '.join(map(str, indices))}")
    return indices[0], indices[1]


def check_members(members: Iterable[Any], n: int) -> list[int]:
    """At least one index, no index twice, in increasing order."""
    indices = [check_index(member, n) for member in members]
    if not indices:
        raise UsageError("name at least one key to average over")
    if len(set(indices)) < len(indices):
        raise UsageError(f"name every key only once: got {', '.join(map(str, indices))}")
    return sorted(indices)


def check_weight(weight: Any, name: str = "a weight") -> float:
    """A number strictly between 0 and 1: softmax of finite scores leaves every key some weight."""
    value = _to_float(weight)
    if not 0 < value < 1:
        raise UsageError(f"{name} lies strictly between 0 and 1: got {weight!r}")
    return value


def _to_float(given: Any) -> float:
    """The number given, or NaN, which every comparison refuses."""
    try:
        return float(given)
    except (TypeError, ValueError):
        return math.nan


def check_matrix(given: Any, name: str) -> Array:
    """A finite float64 matrix with at least one row and one column."""
    matrix = check_numbers(given, name)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise UsageError(f"{name} must be a matrix with one row per key: got shape {matrix.shape}")
    return matrix


def check_numbers(given: Any, name: str) -> Array:
    """A finite float64 array whose largest entry is 0 or between 1e-100 and 1e100 in size."""
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "biuf":
            raise ValueError
        array = np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} must be real numbers in rows of equal length") from None
    if not np.isfinite(array).all():
        raise UsageError(f"{name} must be finite: there is a NaN or an infinity")
    largest = float(np.abs(array).max(initial=0.0))
    if largest > LARGEST or 0 < largest < SMALLEST:
        raise UsageError(f"{name} must be between 1e-100 and 1e100 in size, or zero")
    return array
