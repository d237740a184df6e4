"""Estimates of positive quantities that are compared by ratios: perplexities, slopes, sizes."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from attnlab.measure.intervals import Estimate, mean_interval


def exp_estimate(logs: Estimate) -> Estimate:
    """An estimate of a logarithm, turned into one of the quantity itself."""
    return logs.transform(_exp)


def _exp(logs: Estimate) -> Estimate:
    ends = {"low": math.exp(logs.low), "high": math.exp(logs.high)} if logs.has_interval else {}
    return replace(logs, value=math.exp(logs.value), method=f"exp of: {logs.method}", **ends)


def geometric_mean(values: ArrayLike) -> Estimate:
    """exp of the mean logarithm with its t interval; with a 0 among them the mean, no interval."""
    v = np.asarray(values, dtype=float)
    if not v.size or not np.all(v > 0):
        return Estimate(float(v.mean()) if v.size else math.nan, n=int(v.size), method="mean")
    return exp_estimate(mean_interval(np.log(v)))
