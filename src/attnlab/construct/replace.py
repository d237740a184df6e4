"""Replace key i by the closest key with which the SAME query averages a set, or selects one key.

weights(w) = (1 - w) * others + w * e_i: the new key determines its own weight w and nothing else
(segment.py). So the solution has a closed form, or segment.py explains why there is none.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from attnlab.construct.goals import EQUAL, TOLERANCE, Goal, Target
from attnlab.construct.inputs import AttentionInputs, Scale, check_index, check_vector
from attnlab.construct.numerics import Array, logit, norm, sigmoid
from attnlab.construct.result import Construction, name_keys
from attnlab.construct.segment import (
    Interval,
    Segment,
    balanced_logit,
    explain_infeasible,
    member_scores,
)

_INSIDE = 1e-10  # of a score: the weight exceeds the one asked for by this much
_NEAR = 1e-3  # weight by which the best key falls short of a limit that is not attained


def replace_key(  # noqa: PLR0913  (each is a choice of the caller)
    keys: Any,
    query: Any,
    index: int,
    goal: Goal | str,
    unit_norm: bool = False,
    scale: Scale = 1.0,
    values: Any = None,
) -> Construction:
    """The key closest to k_i (of length 1 if asked) that makes this query meet the goal.

    Where no key does, the best key is returned with `feasible` False and the bound that rules the
    goal out. `also` holds how far the key moved and the range of weights that a new key can have.
    """
    inputs = AttentionInputs.check(keys, scale, values)
    n, h = inputs.keys.shape
    at, q = check_index(index, n), check_vector(query, h, "query")
    target = Target.of(goal, n, inputs.values)
    segment = Segment(inputs.keys, q, at, inputs.scale, unit_norm)
    if n == 1:
        return _replace_only_key(segment, target)
    solutions = (segment.nearest(interval) for interval in goal_intervals(segment, target))
    x = next((x for x in solutions if x is not None), None)
    if x is not None:
        return _describe(segment, target, x, attained=True)
    best = _best_logit(segment, target)
    if math.isfinite(best):
        return _describe(segment, target, best, attained=True)
    # The limit is minus infinity, so every x is possible: the closest key within 1e-3 of it.
    near = segment.nearest((-math.inf, logit(_NEAR, 1 - _NEAR)))
    assert near is not None
    return _describe(segment, target, near, attained=False)


def goal_intervals(segment: Segment, target: Target) -> Iterator[Interval]:
    """Intervals of x in which the goal is met, the preferred ones first."""
    by_weight = _interval_by_weight(segment, target)
    if not target.by_output:
        if by_weight is not None:
            least = by_weight[0 if segment.index in target.members else 1]
            if target.total(segment.weights(least)) >= target.weight:
                yield by_weight
        return
    by_output = _interval_by_output(segment, target)
    if by_output is None:
        return
    if by_weight is not None:
        both = (max(by_weight[0], by_output[0]), min(by_weight[1], by_output[1]))
        if both[0] <= both[1]:
            yield both
    yield by_output


def _interval_by_weight(segment: Segment, target: Target) -> Interval | None:
    """Where the members' weights are equal and, if the new key decides it, large enough."""
    scores = member_scores(segment, target)
    if scores.size and float(np.ptp(scores)) > EQUAL:
        return None
    if not scores.size:
        return (logit(target.weight, 1 - target.weight) + _INSIDE, math.inf)
    if segment.index in target.members:
        x = balanced_logit(segment, scores)
        return (x, x)
    share = float(segment.others[target.members].sum())
    if share <= target.weight:
        return None
    return (-math.inf, logit(1 - target.weight / share, target.weight / share) - _INSIDE)


def _interval_by_output(segment: Segment, target: Target) -> Interval | None:
    """|(1 - w) u + w v_i - wanted| <= 0.05 in every entry: an interval of w, given in x."""
    assert target.values is not None
    start = (segment.others - target.wanted) @ target.values
    end = target.values[segment.index] - target.wanted @ target.values
    weight, rest = _solve_tolerance(start, end - start), _solve_tolerance(end, start - end)
    if weight is None or rest is None:
        return None
    return (logit(weight[0], rest[1]), logit(weight[1], rest[0]))


def _solve_tolerance(start: Array, slope: Array) -> Interval | None:
    """The interval of w in [0, 1] with |start + w slope| <= 0.05 in every entry."""
    limit = TOLERANCE * (1 - 1e-9)
    flat = slope == 0
    if bool((np.abs(start[flat]) > limit).any()):
        return None
    a = (-limit - start[~flat]) / slope[~flat]
    b = (limit - start[~flat]) / slope[~flat]
    low = float(np.minimum(a, b).max(initial=0.0))
    high = float(np.maximum(a, b).min(initial=1.0))
    return (low, high) if low <= high else None


def _best_logit(segment: Segment, target: Target) -> float:
    """The x that gives the members most where the goal cannot be met; it may be infinite."""
    scores = member_scores(segment, target)
    if not scores.size:
        return segment.highest
    if segment.index not in target.members:
        return segment.lowest
    x = balanced_logit(segment, scores)
    return min((min(max(x, low), high) for low, high in segment.reach), key=lambda r: abs(r - x))


def _describe(segment: Segment, target: Target, x: float, attained: bool) -> Construction:
    """The key with logit x, judged by the attention that it gives."""
    key = segment.key_at(x)
    keys = segment.keys.copy()
    keys[segment.index] = key
    inputs = AttentionInputs(keys, segment.scale, target.values)
    weights = inputs.weights(segment.query)
    if met := target.met(weights):
        certificate, sentence = None, _explain_key(segment, target, weights, key)
    else:
        certificate, sentence = explain_infeasible(segment, target)
    return Construction.of_query(
        inputs,
        segment.query,
        feasible=met,
        why=sentence,
        key=key,
        attained=attained,
        margin=_margin(segment, target, keys),
        certificate=certificate,
        residual=abs(segment.x_of(key) - x),
        also=_report(segment, target, weights, key),
    )


def _margin(segment: Segment, target: Target, keys: Array) -> float | None:
    """By how much the lowest score of a member exceeds the highest other score."""
    inside = target.wanted > 0
    if inside.all():
        return None
    scores = segment.scale * ((keys - segment.origin) @ segment.query)
    return float(scores[inside].min() - scores[~inside].max())


def _report(segment: Segment, target: Target, weights: Array, key: Array) -> dict[str, Any]:
    """How far the key moved, the weights it gives, and the range of weights it could have."""
    report: dict[str, Any] = {
        "change": norm(key - segment.keys[segment.index]),
        "key_norm": norm(key),
        "total": target.total(weights),
        "uneven": target.uneven(weights),
        "reach": [sigmoid(segment.lowest), sigmoid(segment.highest)],
    }
    if target.values is not None:
        report["wanted_output"] = target.wanted @ target.values
        report["output_error"] = target.output_error(weights)
    return report


def _explain_key(segment: Segment, target: Target, weights: Array, key: Array) -> str:
    """One sentence on what the query does with the new key."""
    moved = norm(key - segment.keys[segment.index])
    kind = "unit key" if segment.unit_norm else "key"
    names = name_keys(target.members)
    if len(target.members) == 1:
        effect = f"puts weight {weights[target.members[0]]:.4g} on {names}"
    elif target.uneven(weights) <= EQUAL:
        each = float(weights[target.members].mean())
        effect = f"averages {names}: {each:.4g} on each, {target.total(weights):.4g} in total"
    else:
        error = target.output_error(weights)
        effect = f"gives the mean value of {names} within {error:.2g}, though not by equal weights"
    return (
        f"With this {kind} in place of key {segment.index} ({moved:.3g} away) the query {effect}."
    )


def _replace_only_key(segment: Segment, target: Target) -> Construction:
    """The closest allowed key where there is only one, which has weight 1 whatever it is."""
    old = segment.keys[0]
    size = norm(old)
    key = old.copy()
    if segment.unit_norm:
        key = old / size if size else np.eye(old.size)[0]
    return Construction.of_query(
        AttentionInputs(key[None], segment.scale, target.values),
        segment.query,
        feasible=True,
        why="There is only one key: it has weight 1 whatever it is.",
        key=key,
        attained=True,
        also={"change": norm(key - old), "key_norm": norm(key)},
    )
