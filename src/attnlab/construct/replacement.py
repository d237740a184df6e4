"""The keys that a query found by `design` asks for: each the nearest to the old one.

One key: `replace_key`. Several: members all at one score t, the others low enough together,

    sum over keys outside of exp(score - t) <= m rest/(1 - rest).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.design_problem import DesignProblem
from attnlab.construct.inputs import attention_weights
from attnlab.construct.replace import replace_key
from attnlab.construct.result import Construction
from attnlab.construct.segment import Segment, log_sum_exp

Array = NDArray[np.float64]


def replace_free_keys(plan: DesignProblem, q: Array) -> Construction:
    """The second goal with the keys in `free` replaced for this query."""
    if len(plan.free) == 1:
        goal, values = plan.after.goal, plan.after.values
        return replace_key(plan.keys, q, plan.free[0], goal, plan.unit_norm, plan.scale, values)
    keys = plan.keys.copy()
    for index, score in _scores(plan, q).items():
        segment = Segment(plan.keys, q, index, plan.scale, plan.unit_norm)
        keys[index] = segment.key_at(score - segment.base)
    weights = attention_weights(keys, q, plan.scale)
    met = plan.after.met(weights)
    new = list(plan.free)
    values = plan.after.values
    return Construction(
        feasible=met,
        why=f"With new keys {', '.join(map(str, new))} the query "
        + (
            f"meets {plan.after.goal}: {plan.after.total(weights):.4g} of the weight in total."
            if met
            else f"misses {plan.after.goal}."
        ),
        query=q,
        key=keys[new],
        weights=weights,
        output=None if values is None else weights @ values,
        attained=True,
        norm=float(np.linalg.norm(q)),
        also={
            "change": float(np.linalg.norm(keys - plan.keys)),
            "total": plan.after.total(weights),
            "uneven": plan.after.uneven(weights),
        },
    )


def _scores(plan: DesignProblem, q: Array) -> dict[int, float]:
    """The score of every new key."""
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
    found = dict.fromkeys(plan.joining, level)
    room = plan.level_after + level  # log of what all outside may add up to
    left = room + math.log(-math.expm1(min(rest - room, -1e-12)))
    for index in plan.leaving:
        found[index] = max(min(float(old[index]), left - math.log(len(plan.leaving))), -reach)
        if plan.unit_norm and plan.width == 1:  # 1 or -1
            found[index] = -reach
    return found
