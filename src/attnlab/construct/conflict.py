"""Why no query meets both goals: one inequality over weighted means of scores.

With x the scores outside the first goal less its members', y the same for the second, and any
lambda >= 0 over both (L_x, L_y its two sums, H_x, H_y the entropies of its two normalised parts)

    L_x log sum exp x + L_y log sum exp y  >=  L_x H_x + L_y H_y + lambda . (x, y)

Where lambda . (x, y) = 0 for every query (it is a combination of the equations), and the levels
asked for make the left side smaller than the right, no query exists. Levels below 0 (a total
weight above m/(m + 1)) are refuted by any such lambda.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.cone import Refutation
from attnlab.construct.design_problem import DesignProblem

Array = NDArray[np.float64]


def infeasibility_gap(plan: DesignProblem, shares: Array) -> float:
    """Right side less left side of the inequality at the levels asked for; above 0: no query."""
    cut = len(plan.rows_before)
    found = 0.0
    for part, level in ((shares[:cut], plan.level_before), (shares[cut:], plan.level_after)):
        total = float(part.sum())
        used = part[part > 0]
        if total > 0:
            found += float(-(used * np.log(used / total)).sum()) - total * level
    return found


def proves_infeasible(plan: DesignProblem, shares: Array) -> bool:
    """Whether `infeasibility_gap` is above 0; or 0, with a term more in a sum than lambda has: e^x > 0."""
    gap = infeasibility_gap(plan, shares)
    cut = len(plan.rows_before)
    first, second = shares[:cut] > 0, shares[cut:] > 0
    more = (first.any() and not first.all()) or (
        second.any() and (not second.all() or bool(plan.leaving))
    )
    return gap > 0 or (gap > -1e-15 and bool(more))


def strongest_refutation(plan: DesignProblem) -> Refutation | None:
    """The lambda that makes `infeasibility_gap` largest; None where that is not above 0."""
    import cvxpy as cp

    from attnlab.construct.convex_solver import solve_problem

    rows = plan.cone.inside
    size = float(np.abs(rows).max(initial=0.0))
    cut, count = len(plan.rows_before), len(rows)
    if count == 0:
        return None
    shares = cp.Variable(count, nonneg=True)
    goal = 0
    for part, level in ((shares[:cut], plan.level_before), (shares[cut:], plan.level_after)):
        if part.size:
            total = cp.sum(part)
            goal -= cp.sum(cp.rel_entr(part, total * np.ones(part.size))) + level * total
    rules: list[Any] = [cp.sum(shares) == 1]
    if size > 0 and rows.shape[1]:
        rules.append(rows.T / size @ shares == 0)
    if not solve_problem(cp.Problem(cp.Maximize(goal), rules)):
        return None
    found = np.maximum(np.asarray(shares.value, np.float64), 0.0)
    found = found / found.sum()
    if infeasibility_gap(plan, found) <= 1e-6:
        return None
    off = float(np.abs(found @ rows).max(initial=0.0)) / (size or 1.0)
    return Refutation(found, np.zeros(0), False, off)


def describe_conflict(plan: DesignProblem, refuted: Refutation) -> tuple[dict[str, Any], str]:
    """The certificate, and its sentence: which goals are in each other's way."""
    names = _names(plan)
    used = [i for i in range(len(names)) if refuted.rows[i] > 0]
    certificate = {
        "kind": "no-direction",
        "differences": [names[i] for i in used],
        "lambda": [float(refuted.rows[i]) for i in used],
        "excluded_by": infeasibility_gap(plan, refuted.rows),
        "residual": refuted.residual,
        "checked": "exact" if refuted.exact else "to rounding",
    }
    cut = len(plan.rows_before)
    first, second = any(i < cut for i in used), any(i >= cut for i in used)
    who = "the two goals cannot both be met"
    if not second:
        who = f"the goal before the change, {plan.before and plan.before.goal}, cannot be met"
    elif not first:
        who = f"the goal after the change, {plan.after.goal}, cannot be met"
    shown = ", ".join(names[i] for i in used[:6]) + (", ..." if len(used) > 6 else "")
    said = (
        f"No query exists, however long: {who}. The score differences {shown} would all have to be"
        " low, but a weighted mean of them is 0 for every query that gives the equal scores."
    )
    return certificate, said


def _names(plan: DesignProblem) -> list[str]:
    """k_i - k_j for every row, in order."""
    found: list[str] = []
    if plan.before is not None:
        inside = plan.before.members
        every = range(len(plan.keys))
        found += [f"k{i} - k{inside[0]}" for i in every if i not in inside]
    if plan.fixed:
        inside = plan.after.members
        found += [f"k{i} - k{plan.fixed[0]}" for i in plan.staying if i not in inside]
    return found


def describe_unit_limit(plan: DesignProblem, ratio: float) -> tuple[dict[str, Any], str]:
    """Unit keys: every direction that meets the score conditions has too small a norm."""
    keys = plan.fixed[:1] or plan.staying
    sizes = [float(np.linalg.norm(plan.keys[i])) for i in keys]
    certificate = {
        "kind": "unit-reach",
        "largest_length_over_score": ratio,
        "keys": keys,
        "key_norms": sizes,
        "checked": "linear bounds on boxes",
    }
    said = (
        "No query exists: wherever it points, a score a unit key would have to equal or pass is"
        f" at least {1 / ratio if ratio > 0 else math.inf:.4g} times scale |q|, and a unit key"
        " scores at most scale |q|."
    )
    return certificate, said
