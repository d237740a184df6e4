"""Why no query meets both goals of a design: an inequality for weighted means of scores.

Let x be the scores of the keys outside the first goal minus the score of its members, y the same
for the second goal, and lambda >= 0 over both, with sums L_x, L_y and entropies H_x, H_y of its two
normalised parts. Then

    L_x log sum exp x + L_y log sum exp y  >=  L_x H_x + L_y H_y + lambda . (x, y)

Where lambda . (x, y) = 0 for every query (it is a combination of the equations), and the goals
require a left side smaller than the right, no query exists. Any such lambda refutes goals with
levels below 0 (a total weight above m/(m + 1)).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnlab.construct.cone import Refutation
from attnlab.construct.convex_solver import solve_problem
from attnlab.construct.design_problem import DesignProblem
from attnlab.construct.numerics import Array


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
    names = _names(problem)
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
    if not second:
        conflict = (
            f"the goal before the change, {problem.before and problem.before.goal}, cannot be met"
        )
    elif not first:
        conflict = f"the goal after the change, {problem.after.goal}, cannot be met"
    shown = ", ".join(names[i] for i in used[:6]) + (", ..." if len(used) > 6 else "")
    sentence = (
        f"No query exists, however long: {conflict}. The score differences along {shown} would all"
        " have to be low, but a weighted mean of them is 0 for every query with the equal scores."
    )
    return certificate, sentence


def _names(problem: DesignProblem) -> list[str]:
    """The difference of keys that each row stands for, as "k2 - k0"."""
    names: list[str] = []
    if problem.before is not None:
        inside = problem.before.members
        every = range(len(problem.keys))
        names += [f"k{i} - k{inside[0]}" for i in every if i not in inside]
    if problem.fixed:
        inside = problem.after.members
        names += [f"k{i} - k{problem.fixed[0]}" for i in problem.staying if i not in inside]
    return names


def describe_unit_limit(problem: DesignProblem, ratio: float) -> tuple[dict[str, Any], str]:
    """The certificate and sentence where no direction lets unit keys score high enough."""
    keys = problem.fixed[:1] or problem.staying
    sizes = [float(np.linalg.norm(problem.keys[i])) for i in keys]
    certificate = {
        "kind": "unit-reach",
        "largest_length_over_score": ratio,
        "keys": keys,
        "key_norms": sizes,
        "checked": "linear bounds on boxes",
    }
    sentence = (
        "No query exists: in every direction a unit key would need a score of at least"
        f" {1 / ratio if ratio > 0 else math.inf:.4g} times scale |q|, and it can have at most"
        " scale |q|."
    )
    return certificate, sentence
