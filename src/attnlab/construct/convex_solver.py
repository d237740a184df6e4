"""min |q| subject to a plan's convex conditions; with unit keys, the key's direction given.

The one condition that is not convex, score <= scale |q|, is replaced by score <= scale u . q for a
unit vector u: narrower, so what is found is right; repeated with u = q / |q| it only gets shorter.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.design_problem import DesignProblem

Array = NDArray[np.float64]

_INSIDE = 1e-6  # of a level: more than the solver's error


def shortest_query(plan: DesignProblem, along: Array | None = None) -> Array | None:
    """The shortest q, or None where there is none (or the solver gives up).

    Without `along`: what is asked of the keys that stay alone, the replaced ones taken as free.
    """
    import cvxpy as cp

    basis = plan.cone.basis
    if basis.shape[1] == 0:
        return np.zeros(plan.width)
    seen = plan.scale * (plan.keys @ basis)
    # Mean score in units of which the rows are of order 1: the solver likes it so.
    size = float(np.linalg.norm(np.vstack([plan.cone.inside, seen]), axis=1).max()) or 1.0
    first, second = np.split(plan.cone.inside / size, [len(plan.rows_before)])
    y = cp.Variable(basis.shape[1])
    rules: list[Any] = []
    if len(first):
        rules.append(cp.log_sum_exp(first @ y) <= plan.level_before - _INSIDE)
    if along is not None:
        rules += _with_key(plan, y, seen / size, plan.scale * (along @ basis) / size)
    elif len(second):
        rules.append(cp.log_sum_exp(second @ y) <= plan.level_staying - _INSIDE)
    if not rules:
        return np.zeros(plan.width)
    if not solve_problem(cp.Problem(cp.Minimize(cp.sum_squares(y)), rules)):
        return None
    return basis @ np.asarray(y.value, np.float64) / size


def _with_key(plan: DesignProblem, y: Any, seen: Array, along: Array) -> list[Any]:
    """The second goal where the replaced keys score between -along . y and along . y."""
    import cvxpy as cp

    reach = along @ y
    rules: list[Any] = []
    level = seen[plan.fixed[0]] @ y if plan.fixed else reach
    outside = [i for i in plan.staying if i not in plan.after.members]
    parts = [seen[outside] @ y - level] if outside else []
    parts += [cp.reshape(-reach - level, (1,), order="C")] * len(plan.leaving)
    if parts:
        rules.append(cp.log_sum_exp(cp.hstack(parts)) <= plan.level_after - _INSIDE)
    if plan.fixed and plan.joining:
        rules += [level <= reach, -level <= reach]
    return rules


def solve_problem(problem: Any) -> bool:
    """Whether the solver is content."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a doubtful answer is judged by what it does
        try:
            problem.solve(solver=cp.CLARABEL)
        except (cp.SolverError, ValueError):
            return False
    return problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
