"""Minimise |q| subject to the convex conditions of a design, with cvxpy and Clarabel.

The one condition that is not convex, score <= scale |q|, is replaced by score <= scale u . q for a
unit vector u. That is stricter, so a solution remains valid; solving again with u = q / |q| can
only shorten it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from attnlab.construct.design_problem import DesignProblem
from attnlab.construct.numerics import Array

_INSIDE = 1e-6  # distance kept from a level: more than the solver's error


def shortest_query(problem: DesignProblem, along: Array | None = None) -> Array | None:
    """The shortest q, or None where there is none or the solver gives up.

    Without `along`, only the conditions on keys that stay count; the replaced keys are free.
    """
    import cvxpy as cp

    basis = problem.cone.basis
    if basis.shape[1] == 0:
        return np.zeros(problem.width)
    reduced = problem.scale * (problem.keys @ basis)
    # The solver is most accurate when the rows are of order 1.
    size = float(np.linalg.norm(np.vstack([problem.cone.inside, reduced]), axis=1).max()) or 1.0
    first, second = np.split(problem.cone.inside / size, [len(problem.rows_before)])
    y = cp.Variable(basis.shape[1])
    constraints: list[Any] = []
    if len(first):
        constraints.append(cp.log_sum_exp(first @ y) <= problem.level_before - _INSIDE)
    if along is not None:
        constraints += _key_constraints(
            problem, y, reduced / size, problem.scale * (along @ basis) / size
        )
    elif len(second):
        constraints.append(cp.log_sum_exp(second @ y) <= problem.level_staying - _INSIDE)
    if not constraints:
        return np.zeros(problem.width)
    if not solve_problem(cp.Problem(cp.Minimize(cp.sum_squares(y)), constraints)):
        return None
    return basis @ np.asarray(y.value, np.float64) / size


def _key_constraints(problem: DesignProblem, y: Any, reduced: Array, along: Array) -> list[Any]:
    """The second goal for replaced keys with scores between -along . y and along . y."""
    import cvxpy as cp

    reach = along @ y
    constraints: list[Any] = []
    level = reduced[problem.fixed[0]] @ y if problem.fixed else reach
    outside = [i for i in problem.staying if i not in problem.after.members]
    parts = [reduced[outside] @ y - level] if outside else []
    parts += [cp.reshape(-reach - level, (1,), order="C")] * len(problem.leaving)
    if parts:
        constraints.append(cp.log_sum_exp(cp.hstack(parts)) <= problem.level_after - _INSIDE)
    if problem.fixed and problem.joining:
        constraints += [level <= reach, -level <= reach]
    return constraints


def solve_problem(problem: Any) -> bool:
    """Solve with Clarabel; whether it reports an optimum."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # callers check an inaccurate solution themselves
        try:
            problem.solve(solver=cp.CLARABEL)
        except (cp.SolverError, ValueError):
            return False
    return problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
