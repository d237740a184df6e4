"""Why no new key i meets the goal: one of four reasons, each with the numbers that prove it.

fixed-ratio    two members that stay have different scores, so their weights keep a ratio exp(gap)
unit-key       a unit key scores at most scale * |q|:
               w_i <= e^{s|q|} / (e^{s|q|} + sum over the others of e^{s q.k_j})
fixed-rest     keys outside the set keep their scores, and with them too much weight
zero-query     q = 0: every weight is 1/n
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from attnlab.construct.goals import EQUAL, TOLERANCE, Target
from attnlab.construct.numerics import Array, log_sum_exp, sigmoid
from attnlab.construct.result import name_keys
from attnlab.construct.segment import Segment

Reason = tuple[dict[str, Any], str]  # the certificate and its sentence


def explain_infeasible(segment: Segment, target: Target) -> Reason:
    """The reason and, for a goal on the output, the smallest error on the segment."""
    certificate, sentence = _find_reason(segment, target)
    if target.by_output and target.values is not None:
        certificate["segment"] = {
            "from": segment.others @ target.values,
            "to": target.values[segment.index],
            "replaced_weight": [sigmoid(segment.lowest), sigmoid(segment.highest)],
        }
        least = least_output_error(segment, target)
        certificate |= {"least_error": least, "allowed_error": TOLERANCE}
        sentence += (
            f" The output stays at least {least:.3g} from the wanted one ({TOLERANCE} is allowed)."
        )
    return certificate, sentence


def member_scores(segment: Segment, target: Target) -> Array:
    """Scores of the members of the goal that are not replaced."""
    return segment.scores[np.isin(segment.other, target.members)]


def balanced_logit(segment: Segment, scores: Array) -> float:
    """The logit x at which the new key has the mean weight of the members that stay."""
    return log_sum_exp(scores) - math.log(scores.size) - segment.level


def least_output_error(segment: Segment, target: Target) -> float:
    """The smallest, over all possible w, of the largest entry of |output - wanted|.

    The error is convex and piecewise linear in w: a linear program in (w, error).
    """
    from scipy.optimize import linprog

    assert target.values is not None
    start = (segment.others - target.wanted) @ target.values
    slope = target.values[segment.index] - segment.others @ target.values
    size = float(np.abs(np.concatenate([start, slope])).max()) or 1.0
    ones = np.ones(2 * start.size)
    rows = np.column_stack([np.concatenate([slope, -slope]) / size, -ones])
    least = math.inf
    for low, high in segment.reach:
        ends = [(sigmoid(low), sigmoid(high)), (0, None)]
        limits = np.concatenate([-start, start]) / size
        least = min(least, float(linprog([0, 1], rows, limits, bounds=ends).fun) * size)
    return least


def _find_reason(segment: Segment, target: Target) -> Reason:
    if segment.length == 0:
        n = len(segment.keys)
        sentence = f"The query is zero, so every key has score 0 and weight 1/{n}, old or new."
        return {"kind": "zero-query", "weight": 1 / n}, sentence
    scores = member_scores(segment, target)
    if scores.size and float(np.ptp(scores)) > EQUAL:
        return _fixed_ratio(segment, target, scores)
    if segment.unit_norm and (reason := _unit_key(segment, target, scores)):
        return reason
    return _fixed_rest(segment, target, scores)


def _fixed_ratio(segment: Segment, target: Target, scores: Array) -> Reason:
    staying = segment.other[np.isin(segment.other, target.members)]
    low, high = int(staying[np.argmin(scores)]), int(staying[np.argmax(scores)])
    gap = float(np.ptp(scores))
    ratio = f"exp({gap:.4g})" + (f" = {math.exp(gap):.4g}" if gap < 300 else "")
    sentence = (
        f"This query gives key {high} {ratio} times the weight of key {low}; a new key"
        f" {segment.index} does not change that ratio, so the two are never averaged."
    )
    return {"kind": "fixed-ratio", "pair": [high, low], "score_gap": gap}, sentence


def _unit_key(segment: Segment, target: Target, scores: Array) -> Reason | None:
    """None where the goal fails for another reason than the length of the key."""
    certificate: dict[str, Any] = {"kind": "unit-key", "largest_score": segment.bound}
    if not scores.size:
        most = sigmoid(segment.highest)
        certificate |= {"largest_weight": most, "needed_weight": target.weight}
        limit = f"this query can give such a key {segment.index} at most weight {most:.4g}"
    elif segment.index in target.members:
        need = balanced_logit(segment, scores)
        if segment.nearest((need, need)) is not None:
            return None
        certificate |= {"needed_score": need + segment.base, "needed_weight": sigmoid(need)}
        certificate["reach"] = [sigmoid(segment.lowest), sigmoid(segment.highest)]
        limit = f"it cannot have the score {need + segment.base:.4g} of the other members"
    else:
        return None
    ends = f"between {-segment.bound:.4g} and {segment.bound:.4g}"
    sentence = f"A unit key has a score {ends} (scale times the query's length): {limit}."
    return certificate, sentence


def _fixed_rest(segment: Segment, target: Target, scores: Array) -> Reason:
    """The largest total of the members with equal weights, which the other keys limit."""
    inside = segment.index in target.members
    most = float(segment.others[target.members].sum())
    if inside or segment.unit_norm:
        most = target.total(
            segment.weights(balanced_logit(segment, scores) if inside else segment.lowest)
        )
    strongest = int(np.argmax(np.where(target.wanted > 0, -1.0, segment.others)))
    limit = "" if inside or segment.unit_norm else " (a limit that is never attained)"
    verb = "can share equally at most" if len(target.members) > 1 else "can have at most"
    sentence = (
        f"{name_keys(target.members).capitalize()} {verb} {most:.4g} of the weight{limit}: the keys"
        f" that stay keep their scores, and key {strongest} has the highest outside the set."
    )
    certificate = {"kind": "fixed-rest", "largest_total": most, "needed_total": target.weight}
    return {**certificate, "strongest_other": strongest}, sentence
