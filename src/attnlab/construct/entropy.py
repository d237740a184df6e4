"""Maximise the entropy H(lambda) subject to D^T lambda = 0, sum lambda = 1, by Newton on lambda.

At the optimum log lambda_i = d_i . q - nu. From lambda > 0 that satisfies the equations, a step is

    lambda_i <- lambda_i (1 - a e_i),    e = log lambda - D q + nu,

with (q, nu) the least-squares fit of log lambda weighted by lambda: the equations stay satisfied.
Where the rows' lengths differ by many orders, this converges and Newton on q (newton.py) does not:
a small lambda_i still counts here, while a weight e^(d . q) that underflows to zero does not.
"""

from __future__ import annotations

import numpy as np

from attnlab.construct.numerics import Array

_STEPS = 400
_DONE = 1e-9
_NEGLIGIBLE = 1e-100  # a weight below this is set to zero
_SHARE = 0.9  # the largest part of a weight that one step may remove


def maximise_entropy(rows: Array, weights: Array) -> tuple[Array, Array]:
    """(lambda, q) at the optimum, from positive `weights` that satisfy the equations.

    The rows must span all dimensions.
    """
    columns = np.hstack([rows, -np.ones((len(rows), 1))])
    size = np.abs(columns).max(axis=0)
    columns = columns / size
    sums = np.zeros(columns.shape[1])
    sums[-1] = -1.0
    lam = weights / weights.sum()
    fit = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        positive = lam > 0
        now, part = lam[positive], columns[positive]
        fit = _fit(np.sqrt(now)[:, None] * part, np.sqrt(now) * np.log(now), now @ part - sums)
        error = np.log(now) - part @ fit
        step = min(1.0, _SHARE / max(float(error.max()), _SHARE))
        lam[positive] = now * (1 - step * error)
        lam[lam < _NEGLIGIBLE] = 0.0
        if float(np.abs(error).max()) < _DONE:
            break
    return lam, (fit / size)[:-1]


def _fit(matrix: Array, target: Array, residual: Array) -> Array:
    """Solve M^T M y = M^T target - residual by QR, residual being the error of the equations."""
    orthonormal, upper = np.linalg.qr(matrix)
    try:
        rhs = orthonormal.T @ target - np.linalg.solve(upper.T, residual)
        return np.linalg.solve(upper, rhs).astype(np.float64)
    except np.linalg.LinAlgError:  # weights set to zero leave directions undetermined
        return np.linalg.lstsq(matrix, target, rcond=None)[0].astype(np.float64)
