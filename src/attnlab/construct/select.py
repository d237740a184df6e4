"""select: the shortest query whose weight on one key reaches w.

    min ||q||  subject to  sum_{i != j} exp(scale (k_i - k_j) . q) <= 1/w - 1

Where k_j = sum lambda_i k_i lies in the hull of the others, no query gives it more than
1 / (1 + e^H), H the entropy of the most entropic such lambda: that lambda is the certificate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnlab.construct.certificates import hull_certificate, norm_certificate
from attnlab.construct.equal_weight import EqualWeightProblem, equal_weight_problem
from attnlab.construct.inputs import (
    Scale,
    attention_weights,
    check_index,
    check_keys,
    check_values,
    check_weight,
    resolve_scale,
)
from attnlab.construct.log_sum_exp import Array
from attnlab.construct.margin import compare_max_margin
from attnlab.construct.min_norm import MinNormResult, min_norm_query
from attnlab.construct.result import Construction

_NUDGES = 8  # together 6e-14 of the length; a weight then shows as 1 - eps at worst
_WIDE = 1e-6  # a proven gap below this needs no words


def select(
    keys: Any, index: Any, weight: float = 0.99, scale: Scale = 1.0, values: Any = None
) -> Construction:
    """The shortest query that gives key `index` this weight, or the proof that none does."""
    found = check_keys(keys)
    wanted = check_weight(weight)
    problem = equal_weight_problem(
        found, [check_index(index, len(found))], resolve_scale(scale, found.shape[1])
    )
    outcome = min_norm_query(problem.rows, problem.level(wanted))
    return describe_selection(problem, wanted, outcome, check_values(values, len(found)))


def describe_selection(
    problem: EqualWeightProblem, weight: float, outcome: MinNormResult, values: Array | None
) -> Construction:
    """An outcome in words and numbers."""
    if outcome.verdict == "reached":
        return _reached(problem, weight, outcome, values)
    return _refused(problem, weight, outcome, values)


def _reached(
    problem: EqualWeightProblem, weight: float, outcome: MinNormResult, values: Array | None
) -> Construction:
    query, weights = lift_query(problem, weight, outcome)
    level = problem.level(weight)
    proof = norm_certificate(problem, level, outcome)
    norm = float(np.linalg.norm(query))
    gap = 1 - proof["norm_bound"] / norm if norm else 0.0
    key = problem.members[0]
    shorter = (
        "no shorter query does"
        if gap < _WIDE
        else (f"rounding leaves open whether one of length {proof['norm_bound']:.4g} does")
    )
    why = f"key {key} gets weight {weights[key]:.6g} from a query of length {norm:.6g}; {shorter}"
    also: dict[str, Any] = {"gap": gap}
    if problem.rest:
        also["max_margin"] = compare_max_margin(problem.rows, level, outcome.query)
    return Construction(
        feasible=True,
        why=why,
        query=query,
        weights=weights,
        output=None if values is None else weights @ values,
        attained=True,
        margin=score_margin(problem, query),
        norm=norm,
        certificate=proof,
        residual=outcome.residual,
        also=also,
    )


def _refused(
    problem: EqualWeightProblem, weight: float, outcome: MinNormResult, values: Array | None
) -> Construction:
    """The best query there is beside the proof that it is the best."""
    low = outcome.infimum
    assert low is not None
    level = problem.level(weight)
    proof = hull_certificate(problem, outcome, level)
    if proof["checked"] == "exact" and proof["entropy"] > level:
        outcome = replace(outcome, verdict="impossible")
    attained = low.kind == "inside"
    query = problem.lift @ outcome.query
    if not attained:
        near = min_norm_query(problem.rows, problem.level(problem.below(problem.share(low.value))))
        query = problem.lift @ near.query
    weights = attention_weights(problem.keys, query, problem.scale)
    return Construction(
        feasible=False,
        why=_refusal(problem.members[0], weight, outcome, proof),
        query=query,
        weights=weights,
        output=None if values is None else weights @ values,
        attained=attained,
        margin=score_margin(problem, query),
        norm=float(np.linalg.norm(query)),
        certificate=proof,
        residual=outcome.residual,
        also={
            "best_weight": proof["best_weight"],
            **({"undecided": True} if outcome.verdict == "undecided" else {}),
        },
    )


def _refusal(key: int, weight: float, outcome: MinNormResult, proof: dict[str, Any]) -> str:
    best = f"{proof['best_weight']:.6g}"
    if outcome.verdict == "undecided":
        return (
            f"undecided: how key {key} lies to the hull of the others is lost in rounding; "
            f"no query shorter than {outcome.bound:.4g} gives it weight {weight:g}"
        )
    low = outcome.infimum
    most = f"no query gives it more than {best}"
    if low is not None and low.kind == "face":
        most = f"its weight stays below {best}, which longer and longer queries approach"
    where = f"key {key} lies in the hull of the others, k_{key} = sum lambda_i k_i"
    proven = proof["checked"] == "exact" or np.isinf(outcome.bound)
    sure = "" if proven else f" (to rounding; no query below {outcome.bound:.2g} in any case)"
    return f"impossible: {where}{sure}, so {most}; {weight:g} was asked for"


def lift_query(
    problem: EqualWeightProblem, weight: float, outcome: MinNormResult
) -> tuple[Array, Array]:
    """The query in the keys' own coordinates, lengthened until its weights show what is asked."""
    query = problem.lift @ outcome.query
    weights = attention_weights(problem.keys, query, problem.scale)
    for nudge in range(_NUDGES):
        if weights[problem.members].sum() >= weight:
            break
        query = query * (1 + 2.0 ** (nudge - 52))
        weights = attention_weights(problem.keys, query, problem.scale)
    return query, weights


def score_margin(problem: EqualWeightProblem, query: Array) -> float | None:
    """min over the other keys of scale (k_wanted - k_i) . q; None without others."""
    if not problem.rest:
        return None
    first = problem.keys[problem.members[0]]
    return 0.0 - problem.scale * float(((problem.keys[problem.rest] - first) @ query).max())
