"""A second opinion on every construction: the same convex problems given to cvxpy and clarabel.

The dual side (most entropic combination) is a different problem in different variables, so it also
checks the theory: inf f = max H, and KL's infimum = max H - H(p).
"""

from __future__ import annotations

import warnings
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def _solved(problem: Any) -> float | None:
    """The optimal value, or None where clarabel says infeasible or unbounded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": the caller's tolerance decides
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return None
    return float(problem.value) if problem.status in ("optimal", "optimal_inaccurate") else None


def shortest_norm(rows: Array, level: float) -> float | None:
    """min ||q|| subject to log sum exp(rows q) <= level."""
    q = cp.Variable(rows.shape[1])
    return _solved(cp.Problem(cp.Minimize(cp.norm(q)), [cp.log_sum_exp(rows @ q) <= level]))


def most_entropy(rows: Array) -> float | None:
    """max H(lambda) with sum lambda_i d_i = 0; None where 0 is outside the hull of the rows."""
    lam = cp.Variable(len(rows))
    inside = [rows.T @ lam == 0, cp.sum(lam) == 1]
    if _solved(cp.Problem(cp.Maximize(cp.sum(cp.entr(lam))), inside)) is None:
        return None
    p = np.asarray(lam.value)[np.asarray(lam.value) > 0]  # interior points end a little below 0
    return -float((p * np.log(p)).sum())


def widest_gap(rows: Array) -> float | None:
    """max over unit u of min_i -d_i . u, as 1 / min ||u|| with -d_i . u >= 1."""
    u = cp.Variable(rows.shape[1])
    value = _solved(cp.Problem(cp.Minimize(cp.norm(u)), [rows @ u <= -1]))
    return None if value is None else 1 / value
