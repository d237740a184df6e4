"""Why no new key i meets the goal: one of four reasons, each with the numbers that prove it.

fixed-ratio    two members that stay have other scores: exp(gap) between their weights, for good
unit-key       a unit key scores at most scale * |q|:
               w_i <= e^{s|q|} / (e^{s|q|} + sum over the others of e^{s q.k_j})
fixed-rest     keys outside the set keep their scores, and with them too much weight
zero-query     q = 0: every weight is 1/n
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.goals import EQUAL, TOLERANCE, Target
from attnlab.construct.segment import Segment, log_sum_exp, sigmoid

Array = NDArray[np.float64]
Reason = tuple[dict[str, Any], str]  # the certificate, and its sentence


def explain_infeasible(segment: Segment, target: Target) -> Reason:
    """The reason, and where the output decides also the least error on the segment."""
    found, says = _reason(segment, target)
    if target.by_output and target.values is not None:
        found["segment"] = {
            "from": segment.others @ target.values,
            "to": target.values[segment.index],
            "replaced_weight": [sigmoid(segment.lowest), sigmoid(segment.highest)],
        }
        least = least_output_error(segment, target)
        found |= {"least_error": least, "allowed_error": TOLERANCE}
        says += (
            f" The output stays at least {least:.3g} from the wanted one ({TOLERANCE} is allowed)."
        )
    return found, says


def member_scores(segment: Segment, target: Target) -> Array:
    """Scores of the members that stay."""
    return segment.scores[np.isin(segment.other, target.members)]


def balanced_logit(segment: Segment, scores: Array) -> float:
    """x at which the new key has the mean weight of the members that stay."""
    return log_sum_exp(scores) - math.log(scores.size) - segment.level


def list_keys(members: list[int]) -> str:
    """key 2 · keys 0, 1 and 2."""
    if len(members) == 1:
        return f"key {members[0]}"
    return f"keys {', '.join(map(str, members[:-1]))} and {members[-1]}"


def least_output_error(segment: Segment, target: Target) -> float:
    """The least over all reachable w of the largest entry of |output - wanted|.

    The error is convex and piecewise linear in w: a linear programme in (w, error).
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


def _reason(segment: Segment, target: Target) -> Reason:
    if segment.length == 0:
        n = len(segment.keys)
        says = f"The query is zero: every key has score 0 and weight 1/{n}, whatever key is put in."
        return {"kind": "zero-query", "weight": 1 / n}, says
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
    says = (
        f"Key {high} gets {ratio} times the weight of key {low} from this query; a new key"
        f" {segment.index} leaves that ratio as it is, so the two are never averaged."
    )
    return {"kind": "fixed-ratio", "pair": [high, low], "score_gap": gap}, says


def _unit_key(segment: Segment, target: Target, scores: Array) -> Reason | None:
    """None where the length of the key is not what forbids the goal."""
    found: dict[str, Any] = {"kind": "unit-key", "largest_score": segment.bound}
    if not scores.size:
        most = sigmoid(segment.highest)
        found |= {"largest_weight": most, "needed_weight": target.weight}
        says = f"{most:.4g} is the most weight this query can give to such a key {segment.index}"
    elif segment.index in target.members:
        need = balanced_logit(segment, scores)
        if segment.nearest((need, need)) is not None:
            return None
        found |= {"needed_score": need + segment.base, "needed_weight": sigmoid(need)}
        found["reach"] = [sigmoid(segment.lowest), sigmoid(segment.highest)]
        says = f"the other members' score {need + segment.base:.4g} is out of its reach"
    else:
        return None
    ends = f"between {-segment.bound:.4g} and {segment.bound:.4g}"
    return found, f"A unit key has a score {ends} (scale times the query's length): {says}."


def _fixed_rest(segment: Segment, target: Target, scores: Array) -> Reason:
    """The most the members can have in total, equal among themselves."""
    inside = segment.index in target.members
    most = float(segment.others[target.members].sum())
    if inside or segment.unit_norm:
        most = target.total(
            segment.weights(balanced_logit(segment, scores) if inside else segment.lowest)
        )
    strongest = int(np.argmax(np.where(target.wanted > 0, -1.0, segment.others)))
    limit = "" if inside or segment.unit_norm else " (a limit, never attained)"
    have = "can share equally" if len(target.members) > 1 else "can have"
    says = (
        f"{most:.4g} is the most weight {list_keys(target.members)} {have}{limit}: the keys that stay"
        f" keep their scores, key {strongest} the highest outside."
    )
    found = {"kind": "fixed-rest", "largest_total": most, "needed_total": target.weight}
    return {**found, "strongest_other": strongest}, says
