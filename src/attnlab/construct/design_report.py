"""The answer of `design` for a query: the new keys, the attention before, or why there is none.

Each new key is as close as possible to the old one. A single key is found by `replace_key`. Of
several, the members all get one score t, and the others get scores low enough in total:

    sum over keys outside of exp(score - t) <= m rest/(1 - rest).

Why no query meets both goals is an inequality for weighted means of scores. Let x be the scores of
the keys outside the first goal minus the score of its members, y the same for the second goal, and
lambda >= 0 over both, with sums L_x, L_y and entropies H_x, H_y of its two normalised parts. Then

    L_x log sum exp x + L_y log sum exp y  >=  L_x H_x + L_y H_y + lambda . (x, y)

Where lambda . (x, y) = 0 for every query (it is a combination of the equations), and the goals
require a left side smaller than the right, no query exists. Any such lambda refutes goals with
levels below 0 (a total weight above m/(m + 1)).
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from attnlab.construct.cone import Refutation
from attnlab.construct.design_problem import DesignProblem, shortest_query, solve_problem
from attnlab.construct.inputs import AttentionInputs, attention_weights
from attnlab.construct.numerics import Array, log_sum_exp, norm
from attnlab.construct.replace import replace_key
from attnlab.construct.result import Construction, name_keys
from attnlab.construct.segment import Segment


def replace_free_keys(problem: DesignProblem, q: Array) -> Construction:
    """Replace the keys in `free` so that this query meets the second goal."""
    goal, values, new = problem.after.goal, problem.after.values, list(problem.free)
    if len(new) == 1:
        return replace_key(problem.keys, q, new[0], goal, problem.unit_norm, problem.scale, values)
    keys = problem.keys.copy()
    for index, score in _scores(problem, q).items():
        segment = Segment(problem.keys, q, index, problem.scale, problem.unit_norm)
        keys[index] = segment.key_at(score - segment.base)
    inputs = AttentionInputs(keys, problem.scale, values)
    weights = inputs.weights(q)
    total, met = problem.after.total(weights), problem.after.met(weights)
    verdict = f"meets {goal}: {total:.4g} of the weight in total" if met else f"misses {goal}"
    return Construction.of_query(
        inputs,
        q,
        feasible=met,
        why=f"With new {name_keys(new)} the query {verdict}.",
        key=keys[new],
        attained=True,
        also={
            "change": norm(keys - problem.keys),
            "total": total,
            "uneven": problem.after.uneven(weights),
        },
    )


def _scores(problem: DesignProblem, q: Array) -> dict[int, float]:
    """The score that each new key shall have."""
    old = problem.scale * (problem.keys @ q)
    reach = problem.reach(q)
    rest = log_sum_exp(old[problem.outside]) if problem.outside else -math.inf
    if problem.fixed:
        level = float(old[problem.fixed[0]])
    elif problem.unit_norm:
        level = reach
    else:
        level = max(float(old[problem.joining].max()), rest - problem.level_staying)
    scores = dict.fromkeys(problem.joining, level)
    allowed = problem.level_after + level  # log of the sum of exp(score) that keys outside may have
    left = allowed + math.log(-math.expm1(min(rest - allowed, -1e-12)))
    for index in problem.leaving:
        scores[index] = max(min(float(old[index]), left - math.log(len(problem.leaving))), -reach)
        if problem.unit_norm and problem.width == 1:  # the key is 1 or -1
            scores[index] = -reach
    return scores


def report_before(problem: DesignProblem, weights: Array) -> dict[str, Any]:
    """The attention with the keys as given, and how well it meets the goal before the change."""
    values, goal = problem.after.values, problem.before
    report = {
        "weights": weights,
        "output": None if values is None else weights @ values,
        "total": goal and goal.total(weights),
        "output_error": goal and goal.output_error(weights),
    }
    return {name: value for name, value in report.items() if value is not None}


def explain_failure(problem: DesignProblem) -> tuple[dict[str, Any], str]:
    """Why no candidate worked: a proof, or the admission that the question is open."""
    if problem.cone.basis.shape[1] == 0:
        sentence = "Only the zero query gives the equal scores, and it gives all keys equal weight."
        return {"kind": "zero-query", "equations": problem.equations}, sentence
    if problem.unit_norm and problem.width == 1 and problem.fixed and problem.joining:
        size = abs(float(problem.keys[problem.fixed[0], 0]))
        sentence = f"In one dimension a unit key is 1 or -1, and never scores like {size:.4g}."
        return {"kind": "one-dimension", "key_size": size}, sentence
    if problem.unit_norm:  # q = 0 has been tried
        direction, ratio = problem.long_direction(necessary=True)
        if direction is None and ratio < 1 + 1e-6:
            return _explain_unit_limit(problem, ratio)
    return {"kind": "open"}, "No query was found, but none was proven impossible either."


def _explain_unit_limit(problem: DesignProblem, ratio: float) -> tuple[dict[str, Any], str]:
    """No direction lets unit keys score high enough."""
    keys = problem.fixed[:1] or problem.staying
    certificate = {
        "kind": "unit-reach",
        "largest_length_over_score": ratio,
        "keys": keys,
        "key_norms": [norm(problem.keys[i]) for i in keys],
        "checked": "linear bounds on boxes",
    }
    return certificate, (
        "No query exists: in every direction a unit key would need a score of at least"
        f" {1 / ratio if ratio > 0 else math.inf:.4g} times scale |q|, and it can have at most"
        " scale |q|."
    )


def infeasible(
    problem: DesignProblem, certificate: dict[str, Any], why: str, near: Array | None = None
) -> Construction:
    """The query for the first goal, if there is one, with the best keys for the second."""
    if near is None and problem.before is not None:
        alone = replace(problem, after=problem.before, free=tuple(problem.staying[:0]))
        near = shortest_query(alone)
    q = np.zeros(problem.width) if near is None else near
    result = replace_free_keys(problem, q)
    before = attention_weights(problem.keys, q, problem.scale)
    also = {**result.also, "before": report_before(problem, before)}
    return replace(result, feasible=False, why=why, certificate=certificate, also=also)


def infeasibility_gap(problem: DesignProblem, shares: Array) -> float:
    """Right minus left side of the inequality at the required levels; above 0, no query exists."""
    cut = len(problem.rows_before)
    gap = 0.0
    for part, level in ((shares[:cut], problem.level_before), (shares[cut:], problem.level_after)):
        total = float(part.sum())
        used = part[part > 0]
        if total > 0:
            gap += float(-(used * np.log(used / total)).sum()) - total * level
    return gap


def proves_infeasible(problem: DesignProblem, shares: Array) -> bool:
    """Whether lambda rules out every query.

    A gap of exactly 0 suffices where a sum of exponentials has a term that lambda leaves out.
    """
    gap = infeasibility_gap(problem, shares)
    cut = len(problem.rows_before)
    first, second = shares[:cut] > 0, shares[cut:] > 0
    more = (first.any() and not first.all()) or (
        second.any() and (not second.all() or bool(problem.leaving))
    )
    return gap > 0 or (gap > -1e-15 and bool(more))


def strongest_refutation(problem: DesignProblem) -> Refutation | None:
    """The lambda with the largest `infeasibility_gap`; None where that is not above 0."""
    import cvxpy as cp

    rows = problem.cone.inside
    size = float(np.abs(rows).max(initial=0.0))
    cut, count = len(problem.rows_before), len(rows)
    if count == 0:
        return None
    shares = cp.Variable(count, nonneg=True)
    goal = 0
    for part, level in ((shares[:cut], problem.level_before), (shares[cut:], problem.level_after)):
        if part.size:
            total = cp.sum(part)
            goal -= cp.sum(cp.rel_entr(part, total * np.ones(part.size))) + level * total
    rules: list[Any] = [cp.sum(shares) == 1]
    if size > 0 and rows.shape[1]:
        rules.append(rows.T / size @ shares == 0)
    if not solve_problem(cp.Problem(cp.Maximize(goal), rules)):
        return None
    lam = np.maximum(np.asarray(shares.value, np.float64), 0.0)
    lam = lam / lam.sum()
    if infeasibility_gap(problem, lam) <= 1e-6:
        return None
    residual = float(np.abs(lam @ rows).max(initial=0.0)) / (size or 1.0)
    return Refutation(lam, np.zeros(0), False, residual)


def describe_conflict(problem: DesignProblem, refuted: Refutation) -> tuple[dict[str, Any], str]:
    """The certificate and a sentence that says which goals contradict each other."""
    names = [f"k{i} - k{j}" for i, j in problem.pairs_before + problem.pairs_after]
    used = [i for i in range(len(names)) if refuted.rows[i] > 0]
    certificate = {
        "kind": "no-direction",
        "differences": [names[i] for i in used],
        "lambda": [float(refuted.rows[i]) for i in used],
        "excluded_by": infeasibility_gap(problem, refuted.rows),
        "residual": refuted.residual,
        "checked": "exact" if refuted.exact else "to rounding",
    }
    cut = len(problem.rows_before)
    first, second = any(i < cut for i in used), any(i >= cut for i in used)
    conflict = "the two goals cannot both be met"
    if problem.before and not second:
        conflict = f"the goal before the change, {problem.before.goal}, cannot be met"
    elif not first:
        conflict = f"the goal after the change, {problem.after.goal}, cannot be met"
    shown = ", ".join(names[i] for i in used[:6]) + (", ..." if len(used) > 6 else "")
    sentence = (
        f"No query exists, however long: {conflict}. The score differences along {shown} would all"
        " have to be low, but a weighted mean of them is 0 for every query with the equal scores."
    )
    return certificate, sentence
