"""The answer of `design` for a query: the new keys, the attention before, or why there is none.

Each new key is as close as possible to the old one. A single key is found by `replace_key`. Of
several, the members all get one score t, and the others get scores low enough in total:

    sum over keys outside of exp(score - t) <= m rest/(1 - rest).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from attnlab.construct.conflict import describe_unit_limit
from attnlab.construct.convex_solver import shortest_query
from attnlab.construct.design_problem import DesignProblem
from attnlab.construct.inputs import AttentionInputs, attention_weights
from attnlab.construct.numerics import Array, log_sum_exp
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
            "change": float(np.linalg.norm(keys - problem.keys)),
            "total": total,
            "uneven": problem.after.uneven(weights),
        },
    )


def _scores(problem: DesignProblem, q: Array) -> dict[int, float]:
    """The score that each new key shall have."""
    old = problem.scale * (problem.keys @ q)
    reach = problem.reach(q)
    outside = [i for i in problem.staying if i not in problem.after.members]
    rest = log_sum_exp(old[outside]) if outside else -math.inf
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
    report: dict[str, Any] = {"weights": weights}
    if problem.after.values is not None:
        report["output"] = weights @ problem.after.values
    if problem.before is not None:
        report["total"] = problem.before.total(weights)
        report["output_error"] = problem.before.output_error(weights)
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
        direction, ratio = problem.necessary_direction
        if direction is None and ratio < 1 + 1e-6:
            return describe_unit_limit(problem, ratio)
    return {"kind": "open"}, "No query was found, but none was proven impossible either."


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
