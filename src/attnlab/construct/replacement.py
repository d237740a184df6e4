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


def replace_free_keys(plan: DesignProblem, q: Array) -> Construction:
    """Replace the keys in `free` so that this query meets the second goal."""
    goal, values, new = plan.after.goal, plan.after.values, list(plan.free)
    if len(new) == 1:
        return replace_key(plan.keys, q, new[0], goal, plan.unit_norm, plan.scale, values)
    keys = plan.keys.copy()
    for index, score in _scores(plan, q).items():
        segment = Segment(plan.keys, q, index, plan.scale, plan.unit_norm)
        keys[index] = segment.key_at(score - segment.base)
    inputs = AttentionInputs(keys, plan.scale, values)
    weights = inputs.weights(q)
    total, met = plan.after.total(weights), plan.after.met(weights)
    verdict = f"meets {goal}: {total:.4g} of the weight in total" if met else f"misses {goal}"
    return Construction.of_query(
        inputs,
        q,
        feasible=met,
        why=f"With new {name_keys(new)} the query {verdict}.",
        key=keys[new],
        attained=True,
        also={
            "change": float(np.linalg.norm(keys - plan.keys)),
            "total": total,
            "uneven": plan.after.uneven(weights),
        },
    )


def _scores(plan: DesignProblem, q: Array) -> dict[int, float]:
    """The score that each new key shall have."""
    old = plan.scale * (plan.keys @ q)
    reach = plan.reach(q)
    outside = [i for i in plan.staying if i not in plan.after.members]
    rest = log_sum_exp(old[outside]) if outside else -math.inf
    if plan.fixed:
        level = float(old[plan.fixed[0]])
    elif plan.unit_norm:
        level = reach
    else:
        level = max(float(old[plan.joining].max()), rest - plan.level_staying)
    scores = dict.fromkeys(plan.joining, level)
    allowed = plan.level_after + level  # log of the sum of exp(score) that keys outside may have
    left = allowed + math.log(-math.expm1(min(rest - allowed, -1e-12)))
    for index in plan.leaving:
        scores[index] = max(min(float(old[index]), left - math.log(len(plan.leaving))), -reach)
        if plan.unit_norm and plan.width == 1:  # the key is 1 or -1
            scores[index] = -reach
    return scores
