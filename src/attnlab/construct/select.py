"""select: the shortest query that gives one key at least a weight w; identity: one for every key.

    min ||q||  subject to  sum_{i != j} exp(scale (k_i - k_j) . q) <= 1/w - 1

Where k_j = sum lambda_i k_i lies in the convex hull of the other keys, no query gives it more than
1 / (1 + e^H), H the largest entropy of such a lambda: that lambda is the certificate.

As w goes to 1 the shortest query turns to the max-margin direction,

    min ||u||  subject to  (k_j - k_i) . u >= 1  for every other key,

which is solved as non-negative least squares (Lawson and Hanson 1974, chapter 23).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnlab.construct.equal_weight import (
    EqualWeightProblem,
    equal_weight_problem,
    hull_certificate,
    norm_certificate,
)
from attnlab.construct.hull import hull_weights, infimum
from attnlab.construct.inputs import AttentionInputs, Scale, check_index, check_weight
from attnlab.construct.log_sum_exp import log_sum_and_softmax
from attnlab.construct.min_norm import MinNormResult
from attnlab.construct.numerics import Array, largest_norm, norm
from attnlab.construct.result import Construction, Constructions, name_keys

_PROVEN = 1e-6  # a relative gap between norm and bound below this proves the query the shortest
_STEPS = 200


def select(
    keys: Any, index: Any, weight: float = 0.99, scale: Scale = 1.0, values: Any = None
) -> Construction:
    """The shortest query that gives key `index` this weight, or the proof that none does."""
    return select_many(keys, [index], weight, scale, values)[0]


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
    return [_select(equal_weight_problem(inputs, [i]), weight) for i in chosen]


def identity(
    keys: Any, weight: float = 0.99, scale: Scale = 1.0, values: Any = None
) -> Constructions:
    """A query for every key, so that attention returns every value unmixed.

    Row j of the query matrix selects key j; where key j lies in the convex hull of the others, it
    is the best that any query can do. Feasible where every key can be selected.
    """
    rows = select_many(keys, None, weight, scale, values)
    norms = [row.norm for row in rows if row.norm is not None and row.feasible]
    failed = [i for i, row in enumerate(rows) if not row.feasible]
    why = f"Each of the {len(rows)} keys gets weight {weight:g} from its own query."
    if failed:
        why = f"No query gives weight {weight:g} to {name_keys(failed)}:"
        why += f" {len(failed)} of {len(rows)} keys cannot be selected."
    outputs = [row.output for row in rows if row.output is not None]
    return Constructions(
        query=np.stack([row.query for row in rows if row.query is not None]),
        rows=rows,
        why=why,
        weights=np.stack([row.weights for row in rows if row.weights is not None]),
        output=np.stack(outputs) if outputs else None,
        also={
            "selected": len(rows) - len(failed),
            "keys": len(rows),
            **({"longest_query": max(norms)} if norms else {}),
        },
    )


def _select(problem: EqualWeightProblem, weight: float) -> Construction:
    """Solve for the query and describe it, or the reason why there is none."""
    result = problem.min_norm(weight)
    describe = _describe_query if result.verdict == "reached" else _describe_infeasible
    return describe(problem, weight, result)


def _describe_query(
    problem: EqualWeightProblem, weight: float, result: MinNormResult
) -> Construction:
    query, level = problem.lift_query(weight, result), problem.level(weight)
    certificate = norm_certificate(problem, level, result)
    length, bound = norm(query), certificate["norm_bound"]
    gap = 1 - bound / length if length else 0.0
    also: dict[str, Any] = {"gap": gap}
    if problem.rest:
        also["max_margin"] = _compare_max_margin(problem.rows, level, result.query)
    shortest = f"rounding hides whether a query of length {bound:.4g} would do"
    if gap < _PROVEN:
        shortest = "no shorter query does"
    key = problem.members[0]
    reached = problem.inputs.weights(query)[key]
    return Construction.of_query(
        problem.inputs,
        query,
        feasible=True,
        why=f"Key {key} gets weight {reached:.6g} from a query of length {length:.6g}; {shortest}.",
        attained=True,
        margin=problem.margin(query),
        certificate=certificate,
        residual=result.residual,
        also=also,
    )


def _describe_infeasible(
    problem: EqualWeightProblem, weight: float, result: MinNormResult
) -> Construction:
    """The best query there is, with the proof that no other is better."""
    infimum = result.infimum
    assert infimum is not None
    level = problem.level(weight)
    certificate = hull_certificate(problem, result, level)
    if certificate["checked"] == "exact" and certificate["entropy"] > level:
        result = replace(result, verdict="impossible")
    attained = infimum.kind == "inside"
    query = problem.lift @ result.query if attained else problem.query_near_supremum(infimum)
    return Construction.of_query(
        problem.inputs,
        query,
        feasible=False,
        why=_explain_infeasible(problem.members[0], weight, result, certificate),
        attained=attained,
        margin=problem.margin(query),
        certificate=certificate,
        residual=result.residual,
        also={
            "best_weight": certificate["best_weight"],
            **({"undecided": True} if result.verdict == "undecided" else {}),
        },
    )


def _explain_infeasible(
    key: int, weight: float, result: MinNormResult, certificate: dict[str, Any]
) -> str:
    if result.verdict == "undecided":
        return (
            f"Undecided: rounding hides whether key {key} lies in the convex hull of the other"
            f" keys; no query shorter than {result.bound:.4g} gives it weight {weight:g}."
        )
    best = f"{certificate['best_weight']:.6g}"
    limit = f"no query gives it more than {best}"
    if result.infimum is not None and result.infimum.kind == "face":
        limit = f"its weight stays below {best}, which longer and longer queries approach"
    proven = certificate["checked"] == "exact" or np.isinf(result.bound)
    doubt = "" if proven else f" up to rounding (no query shorter than {result.bound:.2g} does it)"
    return (
        f"Impossible: key {key} lies in the convex hull of the other keys,"
        f" k_{key} = sum lambda_i k_i{doubt}, so {limit}; the weight asked for is {weight:g}."
    )


def _max_margin(rows: Array, guess: Array) -> dict[str, Any] | None:
    """The direction u and its gap min_i -d_i . u, from a query with d_i . guess < 0 for all i.

    `gap_error` is the share by which the gap may widen. None where there is no such direction.
    """
    length = norm(guess)
    known = -float((rows @ guess).max()) / length if length else 0.0
    if known <= 0:
        return None
    weights = hull_weights(-rows / known)  # divided so that the solution has length at most 1
    if weights is None:
        return None
    normal = -(weights @ rows)
    size = norm(normal)
    if size == 0:
        return None
    direction = normal / size
    gap = -float((rows @ direction).max())
    # Any unit vector has a gap of at most ||sum lambda_i d_i||, lambda a distribution.
    widest = size / float(weights.sum())
    if gap <= 0:
        return None
    return {"direction": direction, "gap": gap, "gap_error": max(0.0, widest / gap - 1)}


def _length_along(rows: Array, level: float, direction: Array) -> float:
    """The smallest a >= 0 with f(a direction) <= level, for a direction along which f decreases."""
    moves = rows @ direction
    length = 0.0
    for _ in range(_STEPS):
        f, p = log_sum_and_softmax(length * moves)
        excess = f - level
        # f is convex and decreases: Newton from the left never passes the root.
        step = excess / -float(p @ moves)
        if step <= 1e-15 * length:
            break
        length += step
    return length


def _compare_max_margin(rows: Array, level: float, query: Array) -> dict[str, Any]:
    """The max-margin direction: its gap, the norm it needs, and the ratio to the shortest query."""
    margin = _max_margin(rows, query)
    if margin is None:
        low = infimum(rows / largest_norm(rows)) if rows.any() else None
        if low is None or low.kind != "outside" or low.direction is None:
            return {
                "direction": None,
                "reason": "no direction separates a key in the convex hull of the others",
            }
        margin = _max_margin(rows, low.direction)
    if margin is None:
        return {"direction": None, "reason": "the margin is smaller than rounding"}
    needed = _length_along(rows, level, margin["direction"])
    length = norm(query)
    return {**margin, "norm": needed, **({"ratio": needed / length} if length else {})}
