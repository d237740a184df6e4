"""average: equal weight on a set S of keys, as much as possible or at least w in total.

Equal weights need a query that is orthogonal to the differences within S (equal_weight.py). A
proper subset is never averaged exactly, because the other keys keep weights e^(d . q) > 0. Their
share can be made as small as one likes iff the affine hull of S does not meet the convex hull of
the other keys. Otherwise some point sum lambda_i k_i = sum a_s k_s lies in both, and the total is
at most |S| / (|S| + e^H), H the largest entropy of such a lambda.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from attnlab.construct.equal_weight import (
    EqualWeightProblem,
    equal_weight_problem,
    hull_certificate,
    norm_certificate,
)
from attnlab.construct.hull import Infimum, infimum
from attnlab.construct.inputs import AttentionInputs, Scale, check_members, check_weight
from attnlab.construct.min_norm import MinNormResult
from attnlab.construct.numerics import Array, largest_norm
from attnlab.construct.result import Construction, name_keys

_COSTS = (0.5, 0.9, 0.99, 0.999)  # totals whose shortest query is reported under `also`


def average(
    keys: Any,
    members: Iterable[Any],
    weight: float | None = None,
    scale: Scale = 1.0,
    values: Any = None,
) -> Construction:
    """The shortest query that gives `members` equal weights, `weight` in total.

    Without a weight: the largest total, or a total within 1e-3 of it where no query attains it;
    feasible then means that the total can be brought as close to 1 as one likes.
    """
    inputs = AttentionInputs.check(keys, scale, values)
    problem = equal_weight_problem(inputs, check_members(members, len(inputs.keys)))
    weight = None if weight is None else check_weight(weight)
    if not problem.rest:
        return _average_all(inputs)
    size = largest_norm(problem.rows) or 1.0
    lowest = infimum(problem.rows / size, problem.rounding)
    if weight is None and lowest.kind != "outside":
        best = MinNormResult(
            "impossible", lowest.query / size, lowest.value, np.inf, lowest.change, lowest
        )
        return _describe_infeasible(problem, best, None)
    asked = problem.below(1.0) if weight is None else weight
    result = problem.min_norm(asked)
    if result.verdict == "reached":
        return _describe_query(problem, result, asked, lowest, attained=weight is not None)
    return _describe_infeasible(problem, result, asked)


def _average_all(inputs: AttentionInputs) -> Construction:
    n, h = inputs.keys.shape
    return Construction.of_query(
        inputs,
        np.zeros(h),
        feasible=True,
        why=f"The zero query gives each of the {n} keys weight 1/{n} exactly.",
        attained=True,
        certificate={"kind": "zero", "norm_bound": 0.0, "checked": "exact"},
        residual=0.0,
        also={"total": 1.0, "supremum": 1.0},
    )


def _describe_query(
    problem: EqualWeightProblem,
    result: MinNormResult,
    weight: float,
    lowest: Infimum,
    attained: bool,
) -> Construction:
    """A query that reaches the total, with the proof that no shorter one does."""
    query = problem.lift_query(weight, result)
    certificate = norm_certificate(problem, problem.level(weight), result)
    supremum = problem.total(lowest.value) if lowest.kind != "outside" else 1.0
    limit = f"no query reaches more than {supremum:.6g}"
    if lowest.kind == "outside" and lowest.direction is not None:
        certificate |= {
            "separation": problem.lift @ lowest.direction,
            "separation_gap": 0.0 - float((problem.rows @ lowest.direction).max()),
        }
        limit = "longer queries bring the total as close to 1 as one likes"
    also = _report_total(problem, query, supremum)
    return Construction.of_query(
        problem.inputs,
        query,
        feasible=True,
        why=f"Equal weights on {name_keys(problem.members)}, {also['total']:.6g} in total, come"
        f" from a query of length {np.linalg.norm(query):.6g}; {limit}.",
        attained=attained,
        margin=problem.margin(query),
        certificate=certificate,
        residual=result.residual,
        also=also,
    )


def _describe_infeasible(
    problem: EqualWeightProblem, result: MinNormResult, weight: float | None
) -> Construction:
    """The largest total, and the point of both hulls that forbids a larger one."""
    lowest = result.infimum
    assert lowest is not None
    level = None if weight is None else problem.level(weight)
    certificate = hull_certificate(problem, result, level)
    query = problem.lift @ result.query
    if lowest.kind == "face":
        query = problem.query_near_supremum(lowest)
    sure = lowest.sure and result.verdict != "undecided"
    also = _report_total(problem, query, certificate["best_weight"])
    return Construction.of_query(
        problem.inputs,
        query,
        feasible=False,
        why=_explain_infeasible(problem, lowest, certificate["best_weight"], weight, sure),
        attained=lowest.kind == "inside",
        margin=problem.margin(query),
        certificate=certificate,
        residual=lowest.change,
        also=also if sure else {**also, "undecided": True},
    )


def _explain_infeasible(
    problem: EqualWeightProblem, lowest: Infimum, supremum: float, weight: float | None, sure: bool
) -> str:
    names = name_keys(problem.members)
    if problem.count == 1:
        place = f"{names} lies in"
    else:
        place = f"the {'line' if problem.count == 2 else 'plane'} through {names} meets"
    limit = "is approached but never reached" if lowest.kind == "face" else "is the largest"
    asked = "" if weight is None else f"; the total asked for is {weight:g}"
    return (
        f"{'Impossible' if sure else 'Undecided up to rounding'}: {place} the convex hull of the"
        f" other keys, so with equal weights a total of {supremum:.6g} {limit}{asked}."
    )


def _report_total(problem: EqualWeightProblem, query: Array, supremum: float) -> dict[str, Any]:
    """The total, how equal the weights are after rounding, and the norm that each total needs."""
    weights = problem.inputs.weights(query)[problem.members]
    costs = [(total, problem.min_norm(total)) for total in _COSTS if total < supremum]
    return {
        "total": float(weights.sum()),
        "supremum": supremum,
        "spread": float(np.ptp(weights)),
        "cost": [{"weight": w, "norm": r.norm} for w, r in costs if r.verdict == "reached"],
    }
