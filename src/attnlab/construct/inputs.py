"""weights = softmax(scale * K q): the arrays every construction starts from, and their checks."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.core.errors import UsageError

Array = NDArray[np.float64]
Scale = str | float

# Beyond these the square of a norm, or of the query it needs, is no double any more.
LARGEST, SMALLEST = 1e100, 1e-100


def attention_weights(keys: Array, query: Array, scale: Scale = 1.0) -> Array:
    """softmax(scale * K q), by differences to the key of the highest score.

    k_i - k_top is rounded once, relative to itself: keys that share a large offset lose nothing.
    """
    factor = resolve_scale(scale, keys.shape[1])
    top = keys[int(np.argmax(keys @ query))]
    scores = factor * ((keys - top) @ query)
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def resolve_scale(scale: Scale, h: int) -> float:
    """1 or 1/sqrt(h): "1", "sqrt", or any positive number."""
    if scale == "sqrt":
        return 1 / math.sqrt(h)
    try:
        value = float(scale)
    except (TypeError, ValueError):
        raise UsageError(f"scale must be 1, sqrt or a positive number: got {scale!r}") from None
    if not math.sqrt(SMALLEST) <= value <= math.sqrt(LARGEST):
        raise UsageError(f"scale must be 1, sqrt or a positive number: got {scale!r}")
    return value


def check_keys(keys: Any) -> Array:
    """K as float64, one key a row: two axes, not empty, finite, squares within doubles."""
    return check_matrix(keys, "keys")


def check_values(values: Any, n: int) -> Array | None:
    """V as float64, one value a key; None where none are given."""
    if values is None:
        return None
    found = check_matrix(values, "values")
    if len(found) != n:
        raise UsageError(f"there are {n} keys but {len(found)} values: one value a key")
    return found


def check_vector(vector: Any, size: int, name: str) -> Array:
    """A vector of this length; a matrix of one row or column is one too."""
    found = check_numbers(vector, name)
    if found.ndim == 2 and 1 in found.shape:
        found = found.reshape(-1)
    if found.ndim != 1 or found.size != size:
        shape = " x ".join(map(str, found.shape)) or "a single number"
        raise UsageError(f"the {name} must be {size} numbers: got {shape}")
    return found


def check_index(index: Any, n: int) -> int:
    """0, 1, ..., n - 1."""
    try:
        value = operator.index(index)
    except TypeError:
        raise UsageError(f"an index is a whole number from 0: got {index!r}") from None
    if not 0 <= value < n:
        raise UsageError(f"there are {n} keys, numbered from 0 to {n - 1}: got {value}")
    return value


def check_members(members: Iterable[Any], n: int) -> list[int]:
    """Distinct indices, at least one, in increasing order."""
    found = [check_index(member, n) for member in members]
    if not found:
        raise UsageError("name at least one key to average over")
    if len(set(found)) < len(found):
        raise UsageError(f"every key is named once: got {', '.join(map(str, found))}")
    return sorted(found)


def check_weight(weight: Any) -> float:
    """Strictly between 0 and 1: softmax at a finite query leaves every key some weight."""
    try:
        value = float(weight)
    except (TypeError, ValueError):
        raise UsageError(f"a weight lies strictly between 0 and 1: got {weight!r}") from None
    if not 0 < value < 1:
        raise UsageError(f"a weight lies strictly between 0 and 1: got {weight!r}")
    return value


def check_matrix(given: Any, name: str) -> Array:
    """Two axes, neither empty."""
    found = check_numbers(given, name)
    if found.ndim != 2 or 0 in found.shape:
        raise UsageError(f"{name} must be a matrix, one row a key: got shape {found.shape}")
    return found


def check_numbers(given: Any, name: str) -> Array:
    """float64, real, finite, no larger than 1e100; not so small that they round away."""
    try:
        found = np.asarray(given)
        if found.dtype.kind not in "biuf":
            raise ValueError
        found = np.array(found, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} must be real numbers, every row as long as the first") from None
    if not np.isfinite(found).all():
        raise UsageError(f"{name} must be finite: there is a NaN or an infinity")
    most = float(np.abs(found).max(initial=0.0))
    if most > LARGEST or 0 < most < SMALLEST:
        raise UsageError(f"{name} must be between 1e-100 and 1e100 in size, or zero")
    return found
