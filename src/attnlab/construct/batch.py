"""Many selections among the same keys: the first guess is computed for all of them at once.

1. Newton along the path (path_following.py) runs on all problems side by side; the lower bound
   (H(p) - t) / ||D^T p|| on the norm sends the problems with a distant solution to step 2.
2. Newton on f alone (newton.py) runs on these from where they stopped: is the key in the hull?
3. Each guess is then checked and certified on the rows of its own problem, like a single
   selection; what neither step decided is solved on its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from attnlab.construct.equal_weight import EqualWeightProblem, equal_weight_problem
from attnlab.construct.hull import interior_infimum
from attnlab.construct.inputs import AttentionInputs, Scale, check_index, check_weight
from attnlab.construct.log_sum_exp import SharedKeys, SingleProblem
from attnlab.construct.min_norm import FAR, MinNormResult, ReducedRows, accept_query, decide
from attnlab.construct.newton import minimise
from attnlab.construct.numerics import Array, Indices
from attnlab.construct.path_following import follow_path
from attnlab.construct.result import Construction, Constructions, name_keys
from attnlab.construct.select import describe_selection
from attnlab.construct.span import orthonormal_basis

_CELLS = 4_000_000  # problems times keys held at once: 32 MB per array


def select_many(
    keys: Any,
    indices: Sequence[Any] | None = None,
    weight: float = 0.99,
    scale: Scale = 1.0,
    values: Any = None,
) -> list[Construction]:
    """`select` for each of `indices` (for every key if None), in that order."""
    inputs, weight = AttentionInputs.check(keys, scale, values), check_weight(weight)
    n = len(inputs.keys)
    chosen = [check_index(i, n) for i in (range(n) if indices is None else indices)]
    return [
        describe_selection(problem, weight, result)
        for problem, result in _solve(inputs, chosen, weight)
    ]


def identity(
    keys: Any, weight: float = 0.99, scale: Scale = 1.0, values: Any = None
) -> Constructions:
    """A query for every key, so that attention returns every value unmixed.

    Row j of the query matrix selects key j; where key j lies in the convex hull of the others, it
    is the best that any query can do. Feasible where every key can be selected.
    """
    inputs = AttentionInputs.check(keys, scale, values)
    rows = select_many(keys, None, weight, scale, values)
    weights = np.stack([row.weights for row in rows if row.weights is not None])
    norms = [row.norm for row in rows if row.norm is not None and row.feasible]
    also: dict[str, Any] = {"selected": sum(row.feasible for row in rows), "keys": len(rows)}
    if norms:
        also["longest_query"] = max(norms)
    failed = [i for i, row in enumerate(rows) if not row.feasible]
    why = f"Each of the {len(rows)} keys gets weight {weight:g} from its own query."
    if failed:
        why = f"No query gives weight {weight:g} to {name_keys(failed)}:"
        why += f" {len(failed)} of {len(rows)} keys cannot be selected."
    return Constructions(
        query=np.stack([row.query for row in rows if row.query is not None]),
        rows=rows,
        why=why,
        weights=weights,
        output=inputs.output(weights),
        also=also,
    )


def _solve(
    inputs: AttentionInputs, chosen: list[int], weight: float
) -> Iterator[tuple[EqualWeightProblem, MinNormResult]]:
    """Solve one block of problems after the other, so that the scores of a block fit in memory."""
    shared, lift = _shared_coordinates(inputs)
    size = max(1, _CELLS // len(inputs.keys))
    for first in range(0, len(chosen), size):
        block = chosen[first : first + size]
        problems = (equal_weight_problem(inputs, [j]) for j in block)
        if shared is None or weight * len(inputs.keys) <= 1:
            yield from ((problem, problem.min_norm(weight)) for problem in problems)
            continue
        guesses = _guess(shared, np.array(block, dtype=np.intp), weight)
        for problem, (q, inside) in zip(problems, guesses, strict=True):
            yield problem, _check_guess(problem, weight, q, inside, lift)


def _shared_coordinates(inputs: AttentionInputs) -> tuple[Array | None, Array]:
    """Centred keys in coordinates of their span, scaled so that differences have length <= 1."""
    centred = inputs.keys - inputs.keys.mean(axis=0)
    size = 2 * inputs.scale * float(np.linalg.norm(centred, axis=1).max())
    span = orthonormal_basis(centred)
    if size == 0 or span.shape[1] == 0:
        return None, span
    return inputs.scale * (centred @ span) / size, span / size


def _guess(keys: Array, block: Indices, weight: float) -> Iterator[tuple[Array | None, bool]]:
    """(q, inside) per problem: the shortest query, or the minimum of f inside a hull, or None."""
    objective = SharedKeys(keys, block)
    level = np.full(len(block), np.log1p(-weight) - np.log(weight))
    path = follow_path(objective, level, np.zeros((len(block), keys.shape[1])), FAR)
    unsolved = np.flatnonzero(~path.solved)
    inside = np.zeros(len(block), bool)
    if unsolved.size:
        newton = minimise(objective.take(unsolved), path.q[unsolved])
        path.q[unsolved], inside[unsolved] = newton.at.q, newton.inside
    for b in range(len(block)):
        known = bool(path.solved[b] or inside[b])
        yield (path.q[b] if known else None), bool(inside[b])


def _check_guess(
    problem: EqualWeightProblem, weight: float, q: Array | None, inside: bool, lift: Array
) -> MinNormResult:
    """Check the guess on the problem's own rows; solve the problem alone where that fails."""
    rows, level = problem.rows, problem.level(weight)
    if q is not None and not inside:
        result = accept_query(rows, level, lift @ q)
        if result is not None and result.proven:
            return result
    if q is not None and inside:
        reduced = ReducedRows(rows @ lift, lift)
        newton = minimise(SingleProblem(reduced.rows), q[None])
        if newton.inside[0]:
            return decide(rows, level, interior_infimum(newton), reduced)
    return problem.min_norm(weight)
