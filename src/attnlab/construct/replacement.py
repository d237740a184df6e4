"""The new keys for a query found by `design`, each as close as possible to the old one.

A single key is found by `replace_key`. Of several, the members all get one score t, and the others
get scores low enough in total:

    sum over keys outside of exp(score - t) <= m rest/(1 - rest).
"""

from __future__ import annotations

import math

import numpy as np

from attnlab.construct.design_problem import DesignProblem
from attnlab.construct.inputs import AttentionInputs
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
