"""score-scale: are attention scores O(1) at the start, whatever the width D?

Scores that grow with D saturate the softmax: one weight is 1, gradients vanish, and no theory
with finite scores applies. Runs: the variance of the scores at the start for several D. Number:
the slope of log variance against log D, 0 for a model scaled with 1/√D, 2 without. Fails when the
slope is beyond ±0.25 by more than two standard errors, or the largest weight exceeds 0.99
on average at the largest D.

Of one model (`saturation`). Runs: the scores of every attention in one forward pass. Number: the
largest weight of a query, averaged over heads and the second half of the positions. Fails above
0.99: scores are not O(1) (a missing 1/√d), and no gradient reaches queries and keys.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from attnlab.audit.finding import Finding, NotApplicable, audit

if TYPE_CHECKING:
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.subject import Subject

NAME = "score-scale"
SLOPE_LIMIT = 0.25  # over a factor 2 in D this is 19 %: more than sampling noise, far below 2
SATURATED = 0.99


@audit(NAME, threshold=SLOPE_LIMIT)
def score_scale(
    dims: Sequence[int], variances: Sequence[float], largest_weights: Sequence[float]
) -> Finding:
    """Judge variances of scores measured at several widths (repeats of a width tell the noise)."""
    d, v, w = np.asarray(dims, float), np.asarray(variances, float), np.asarray(largest_weights)
    if len(set(dims)) < 2 or not np.all(v > 0):
        raise NotApplicable("it needs score variances at two widths or more")
    slope, error = _slope(np.log(d), np.log(v))
    saturation = float(w[d == d.max()].mean())
    evidence = {
        "dims": [int(x) for x in d],
        "variance": [float(x) for x in v],
        "mean_largest_weight": saturation,
        "standard_error": error,
    }
    if abs(slope) - 2 * error > SLOPE_LIMIT:
        why = f"the variance of the scores goes like D^{slope:.2f}: not the same model at every D"
    elif saturation > SATURATED:
        why = f"softmax is saturated: at the largest D one weight is {saturation:.3f} on average"
    else:
        why = (
            f"scores keep their size (variance ∝ D^{slope:.2f}) and softmax is not saturated "
            f"(largest weight {saturation:.2f} on average at the largest D)"
        )
        return Finding(NAME, "pass", slope, SLOPE_LIMIT, why, evidence)
    return Finding(NAME, "fail", slope, SLOPE_LIMIT, why, evidence)


@audit(NAME, question="Is its softmax saturated?", threshold=SATURATED)
def saturation(subject: "Subject", probe: "Probe") -> Finding:
    """Judge any model whose attention scores can be recorded."""
    from attnlab.audit.probing.attention_scores import attention_scores  # a study needs no torch

    half = probe.short_length(subject) // 2
    weights = [s.double().softmax(dim=-1)[..., half:, :] for s in attention_scores(subject, probe)]
    largest = [float(w.amax(dim=-1).nanmean()) for w in weights]
    number = max(largest)
    evidence = {"mean_largest_weight": [round(x, 4) for x in largest]}
    problem = ""
    if number > SATURATED:
        problem = (
            f"in attention {largest.index(number)} the largest weight is {number:.3f} on average: "
            "its scores are too large and its softmax is saturated"
        )
    why = f"no softmax is saturated (the largest weight is {number:.2f} on average)"
    return Finding.judged(NAME, problem, why, number, SATURATED, evidence)


def _slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Least-squares slope and its standard error; 0 with fewer than three points."""
    slope, level = np.polyfit(x, y, 1)
    if x.size < 3:
        return float(slope), 0.0
    residual = y - level - slope * x
    spread = float(residual @ residual) / (x.size - 2)
    return float(slope), float(np.sqrt(spread / ((x - x.mean()) ** 2).sum()))
