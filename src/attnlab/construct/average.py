"""average: equal weight on a set S of keys and as much as possible, or at least w, in total.

Equal weights ask for a query orthogonal to the differences within S (aim.py). A proper subset is
never averaged exactly: the others keep e^(d . q) > 0. Their share can be made as small as one
likes iff aff(S) misses conv(rest); otherwise a point sum lambda_i k_i = sum a_s k_s lies in both,
and the total stays at |S| / (|S| + e^H) or less, H the entropy of the most entropic such lambda.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from attnlab.construct.certificates import hull_certificate, norm_certificate
from attnlab.construct.equal_weight import EqualWeightProblem, equal_weight_problem
from attnlab.construct.hull import Infimum, infimum
from attnlab.construct.inputs import (
    Scale,
    attention_weights,
    check_keys,
    check_members,
    check_values,
    check_weight,
    resolve_scale,
)
from attnlab.construct.log_sum_exp import Array, log_sum_and_softmax
from attnlab.construct.min_norm import MinNormResult, largest_norm, min_norm_query
from attnlab.construct.result import Construction
from attnlab.construct.select import lift_query, score_margin

_NAMED = 8  # keys a sentence lists
_COSTS = (0.5, 0.9, 0.99, 0.999)  # totals whose shortest query is reported beside the answer


def average(
    keys: Any,
    members: Iterable[Any],
    weight: float | None = None,
    scale: Scale = 1.0,
    values: Any = None,
) -> Construction:
    """The shortest query with equal weights on `members`, `weight` in total.

    Without a weight: the most there is, or within 1e-3 of it where it is only approached;
    feasible then means that the total can be brought as near to 1 as one likes.
    """
    found = check_keys(keys)
    given = check_values(values, len(found))
    problem = equal_weight_problem(
        found, check_members(members, len(found)), resolve_scale(scale, found.shape[1])
    )
    wanted = None if weight is None else check_weight(weight)
    if not problem.rest:
        return _all(problem, given)
    low = _lowest(problem)
    if wanted is None:
        return _most(problem, low, given)
    outcome = _reach(problem, wanted)
    if outcome.verdict == "reached":
        return replace(_answer(problem, outcome, wanted, given, low), attained=True)
    return _refused(problem, outcome, wanted, given)


def _lowest(problem: EqualWeightProblem) -> Infimum:
    """inf f, on rows of length one at most; queries are left in those units."""
    size = largest_norm(problem.rows)
    return infimum(problem.rows / size if size else problem.rows, problem.rounding)


def _reach(problem: EqualWeightProblem, weight: float) -> MinNormResult:
    return min_norm_query(problem.rows, problem.level(weight), problem.rounding)


def _all(problem: EqualWeightProblem, values: Array | None) -> Construction:
    n, h = problem.keys.shape
    weights = np.full(n, 1 / n)
    return Construction(
        feasible=True,
        why=f"all {n} keys: the zero query gives each of them 1/{n} exactly",
        query=np.zeros(h),
        weights=weights,
        output=None if values is None else weights @ values,
        attained=True,
        norm=0.0,
        certificate={"kind": "zero", "norm_bound": 0.0, "checked": "exact"},
        residual=0.0,
        also={"total": 1.0, "supremum": 1.0},
    )


def _most(problem: EqualWeightProblem, low: Infimum, values: Array | None) -> Construction:
    """As much as possible: attained, or approached."""
    if low.kind == "outside":
        near = problem.below(1.0)
        outcome = _reach(problem, near)
        if outcome.verdict == "reached":
            return _answer(problem, outcome, near, values, low)
        return _refused(problem, outcome, near, values)
    size = largest_norm(problem.rows) or 1.0
    query = low.query / size
    if low.kind == "face":
        query = _reach(problem, problem.below(problem.share(low.value))).query
    f = float(log_sum_and_softmax((problem.rows @ query)[None])[0][0])
    outcome = MinNormResult("impossible", query, f, np.inf, low.change, low)
    return _refused(problem, outcome, None, values)


def _answer(
    problem: EqualWeightProblem,
    outcome: MinNormResult,
    weight: float,
    values: Array | None,
    low: Infimum,
) -> Construction:
    """A query that reaches the total, and that none shorter does."""
    query, weights = lift_query(problem, weight, outcome)
    proof = norm_certificate(problem, problem.level(weight), outcome)
    total = float(weights[problem.members].sum())
    if low.kind == "outside" and low.direction is not None:
        proof |= {
            "separation": problem.lift @ low.direction,
            "separation_gap": 0.0 - float((problem.rows @ low.direction).max()),
        }
        limit = "longer queries bring the total as near to 1 as one likes"
    else:
        limit = f"no query reaches more than {problem.share(low.value):.6g}"
    why = (
        f"equal weights on {_names(problem)}, {total:.6g} in total, "
        f"from a query of length {np.linalg.norm(query):.6g}; {limit}"
    )
    supremum = 1.0 if low.kind == "outside" else problem.share(low.value)
    return Construction(
        feasible=True,
        why=why,
        query=query,
        weights=weights,
        output=None if values is None else weights @ values,
        attained=low.kind == "inside",
        margin=score_margin(problem, query),
        norm=float(np.linalg.norm(query)),
        certificate=proof,
        residual=outcome.residual,
        also={"total": total, "supremum": supremum, **_beside(problem, weights, supremum)},
    )


def _refused(
    problem: EqualWeightProblem, outcome: MinNormResult, weight: float | None, values: Array | None
) -> Construction:
    """The most there is, and the point in aff(S) and conv(rest) that forbids more."""
    low = outcome.infimum
    assert low is not None
    level = None if weight is None else problem.level(weight)
    proof = hull_certificate(problem, outcome, level)
    query = problem.lift @ outcome.query
    if low.kind == "face" and weight is not None:
        near = _reach(problem, problem.below(problem.share(low.value)))
        query = problem.lift @ near.query
    weights = attention_weights(problem.keys, query, problem.scale)
    supremum = proof["best_weight"]
    never = "is approached but never reached" if low.kind == "face" else "is the most there is"
    asked = "" if weight is None else f"; {weight:g} was asked for"
    sure = low.sure and outcome.verdict != "undecided"
    why = (
        f"{'impossible' if sure else 'undecided, for rounding decides'}: "
        f"{_place(problem)} the hull of the other keys, "
        f"so with equal weights a total of {supremum:.6g} {never}{asked}"
    )
    return Construction(
        feasible=False,
        why=why,
        query=query,
        weights=weights,
        output=None if values is None else weights @ values,
        attained=low.kind == "inside",
        margin=score_margin(problem, query),
        norm=float(np.linalg.norm(query)),
        certificate=proof,
        residual=low.change,
        also={
            "total": float(weights[problem.members].sum()),
            "supremum": supremum,
            **_beside(problem, weights, supremum),
            **({} if sure else {"undecided": True}),
        },
    )


def _beside(problem: EqualWeightProblem, weights: Array, supremum: float) -> dict[str, Any]:
    """How equal the weights are in floating point, and what each total costs in length."""
    reachable = [w for w in _COSTS if w < supremum]
    found = [(w, _reach(problem, w)) for w in reachable]
    return {
        "spread": float(np.ptp(weights[problem.members])),
        "cost": [{"weight": w, "norm": o.norm} for w, o in found if o.verdict == "reached"],
    }


def _names(problem: EqualWeightProblem) -> str:
    names = ", ".join(map(str, problem.members[:_NAMED]))
    more = ", …" if problem.count > _NAMED else ""
    return f"key {names}" if problem.count == 1 else f"keys {names}{more}"


def _place(problem: EqualWeightProblem) -> str:
    if problem.count == 1:
        return f"{_names(problem)} lies in"
    shape = "line" if problem.count == 2 else "plane"
    return f"the {shape} through {_names(problem)} meets"
