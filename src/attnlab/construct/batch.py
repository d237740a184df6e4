"""Many selections among the same keys at once: the first look is shared, the proof is not.

1. all: Newton along the path (shortest.py) side by side; the bound (H(p) - t) / ||D^T p|| sends
   those it shows to be far away to 2;
2. these: Newton on f alone (hull.py), side by side, from where they stopped: inside the hull?
3. each answer is settled and certified on its own rows as a single one is; what neither look
   decided is solved alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attnlab.construct.equal_weight import EqualWeightProblem, equal_weight_problem
from attnlab.construct.hull import interior_infimum
from attnlab.construct.inputs import (
    Scale,
    check_index,
    check_keys,
    check_values,
    check_weight,
    resolve_scale,
)
from attnlab.construct.log_sum_exp import Array, Indices, SharedKeys, SingleProblem
from attnlab.construct.min_norm import (
    NEAR,
    MinNormResult,
    ReducedRows,
    accept_query,
    decide,
    min_norm_query,
)
from attnlab.construct.newton import minimise
from attnlab.construct.path_following import follow_path
from attnlab.construct.result import Construction
from attnlab.construct.select import describe_selection
from attnlab.construct.span import orthonormal_basis

_CELLS = 4_000_000  # problems times keys held at once: 32 MB an array


def select_many(
    keys: Any,
    indices: Sequence[Any] | None = None,
    weight: float = 0.99,
    scale: Scale = 1.0,
    values: Any = None,
) -> list[Construction]:
    """select for each of `indices` (all keys if None), in that order."""
    found, wanted = check_keys(keys), check_weight(weight)
    n = len(found)
    chosen = [check_index(i, n) for i in (range(n) if indices is None else indices)]
    factor, output = resolve_scale(scale, found.shape[1]), check_values(values, n)
    return [
        describe_selection(problem, wanted, outcome, output)
        for problem, outcome in _outcomes(found, chosen, wanted, factor)
    ]


def _outcomes(
    keys: Array, chosen: list[int], weight: float, scale: float
) -> Iterator[tuple[EqualWeightProblem, MinNormResult]]:
    """One block after the other, so that the scores of a block fit."""
    shared, lift = _shared(keys, scale)
    size = max(1, _CELLS // len(keys))
    for first in range(0, len(chosen), size):
        block = chosen[first : first + size]
        problems = (equal_weight_problem(keys, [j], scale) for j in block)
        if shared is None or weight * len(keys) <= 1:
            yield from ((p, min_norm_query(p.rows, p.level(weight))) for p in problems)
            continue
        guess = _look(shared, np.array(block, dtype=np.intp), weight)
        for problem, (q, inside) in zip(problems, guess, strict=True):
            yield problem, _settled(problem, problem.level(weight), q, inside, lift)


def _shared(keys: Array, scale: float) -> tuple[Array | None, Array]:
    """Keys about their mean, in coordinates of their span, differences of length one at most."""
    around = keys - keys.mean(axis=0)
    size = 2 * scale * float(np.linalg.norm(around, axis=1).max())
    span = orthonormal_basis(around)
    if size == 0 or span.shape[1] == 0:
        return None, span
    return scale * (around @ span) / size, span / size


def _look(keys: Array, block: Indices, weight: float) -> Iterator[tuple[Array | None, bool]]:
    """(q, inside): the shortest query, or the lowest point of f inside a hull, or no idea."""
    excess = SharedKeys(keys, block)
    level = np.full(len(block), np.log1p(-weight) - np.log(weight))
    path = follow_path(excess, level, np.zeros((len(block), keys.shape[1])), NEAR)
    left = np.flatnonzero(~path.solved)
    inside = np.zeros(len(block), bool)
    if left.size:
        low = minimise(excess.take(left), path.q[left])
        path.q[left], inside[left] = low.at.q, low.inside
    for b in range(len(block)):
        known = bool(path.solved[b] or inside[b])
        yield (path.q[b] if known else None), bool(inside[b])


def _settled(
    problem: EqualWeightProblem, level: float, q: Array | None, inside: bool, lift: Array
) -> MinNormResult:
    """The shared guess on the problem's own rows, with the same proof as a single solve."""
    rows = problem.rows
    if q is not None and not inside:
        found = accept_query(rows, level, lift @ q)
        if found is not None and found.proven:
            return found
    if q is not None and inside:
        frame = ReducedRows(rows @ lift, lift)
        low = minimise(SingleProblem(frame.rows), q[None])
        if low.inside[0]:
            return decide(rows, level, interior_infimum(low), frame)
    return min_norm_query(rows, level)
