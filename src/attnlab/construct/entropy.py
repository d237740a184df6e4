"""max H(lambda) subject to D^T lambda = 0, sum lambda = 1: Newton on lambda itself.

At the optimum log lambda_i = d_i . q - nu. From a lambda > 0 that solves the equations, a step is

    lambda_i <- lambda_i (1 - a e_i),    e = log lambda - D q + nu,

with (q, nu) the least-squares fit of log lambda weighted by lambda: the equations stay solved.
Where the rows' lengths differ by many orders this arrives and Newton on q (hull.py) does not: a
weight that has become small here is still seen, one that e^(d . q) has made zero is not.
"""

from __future__ import annotations

import numpy as np

from attnlab.construct.log_sum_exp import Array

_STEPS = 400
_DONE = 1e-9
_GONE = 1e-100  # a weight that will not matter any more
_SHARE = 0.9  # of a weight that one step may take away


def entropy(p: Array) -> float:
    """-sum p log p, 0 log 0 = 0."""
    used = p[p > 0]
    return -float((used * np.log(used)).sum())


def maximise_entropy(rows: Array, weights: Array) -> tuple[Array, Array]:
    """(lambda, q) from a positive solution `weights`; the rows span all dimensions."""
    columns = np.hstack([rows, -np.ones((len(rows), 1))])
    size = np.abs(columns).max(axis=0)
    columns = columns / size
    sums = np.zeros(columns.shape[1])
    sums[-1] = -1.0
    lam = weights / weights.sum()
    fit = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        here = lam > 0
        now, part = lam[here], columns[here]
        fit = _fit(np.sqrt(now)[:, None] * part, np.sqrt(now) * np.log(now), now @ part - sums)
        error = np.log(now) - part @ fit
        step = min(1.0, _SHARE / max(float(error.max()), _SHARE))
        lam[here] = now * (1 - step * error)
        lam[lam < _GONE] = 0.0
        if float(np.abs(error).max()) < _DONE:
            break
    return lam, (fit / size)[:-1]


def _fit(matrix: Array, target: Array, left: Array) -> Array:
    """M^T M y = M^T target - left, by QR: the least-squares fit, less what the equations lack."""
    across, upper = np.linalg.qr(matrix)
    try:
        rhs = across.T @ target - np.linalg.solve(upper.T, left)
        return np.linalg.solve(upper, rhs).astype(np.float64)
    except np.linalg.LinAlgError:  # weights that are gone leave directions free
        return np.linalg.lstsq(matrix, target, rcond=None)[0].astype(np.float64)
