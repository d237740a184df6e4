"""k_i -> the nearest key with which the SAME query averages a set, or selects one value.

weights(w) = (1 - w) * others + w * e_i: the replaced key chooses its own weight w and nothing else
(`segment.py`). So the answer is closed, and where there is none the reason is one of

    the other members' weights differ, and keep their ratio          "fixed-ratio"
    too much weight stays on keys outside the set                    "fixed-rest"
    a unit key scores at most scale * |q|                            "unit-key"
    q = 0 sees no key                                                "zero-query"
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.goals import EQUAL, TOLERANCE, Goal, Target
from attnlab.construct.infeasibility import (
    balanced_logit,
    explain_infeasible,
    list_keys,
    member_scores,
)
from attnlab.construct.inputs import (
    Scale,
    attention_weights,
    check_index,
    check_keys,
    check_values,
    check_vector,
    resolve_scale,
)
from attnlab.construct.result import Construction
from attnlab.construct.segment import Interval, Segment, logit, sigmoid

Array = NDArray[np.float64]

_INSIDE = 1e-10  # of a score: a weight is passed, not touched
_NEAR = 1e-3  # of weight: how close to a limit that is not attained


def replace_key(  # noqa: PLR0913  (what a person may choose)
    keys: Any,
    query: Any,
    index: int,
    goal: Goal | str,
    unit_norm: bool = False,
    scale: Scale = 1.0,
    values: Any = None,
) -> Construction:
    """The key nearest to k_i (of length 1 if asked) that makes this query meet the goal.

    Where no key does, the best that can be done comes back with `feasible` False and the bound
    that forbids it. `also`: how far the key moved, the weights a new key i could have.
    """
    found = check_keys(keys)
    n, h = found.shape
    at = check_index(index, n)
    asked = check_vector(query, h, "query")
    target = Target.of(goal, n, check_values(values, n))
    segment = Segment(found, asked, at, resolve_scale(scale, h), unit_norm)
    if n == 1:
        return _alone(segment, target)
    x = next(
        (x for wish in goal_intervals(segment, target) if (x := segment.nearest(wish)) is not None),
        None,
    )
    attained = x is not None or math.isfinite(_extreme(segment, target))
    return _answer(segment, target, _best(segment, target) if x is None else x, attained)


def goal_intervals(segment: Segment, target: Target) -> Iterator[Interval]:
    """Intervals of x in which the goal is met, the preferred ones first."""
    rule = _by_weight(segment, target)
    if not target.by_output:
        if rule is not None and _total_at(segment, target, rule) >= target.weight:
            yield rule
        return
    good = _by_output(segment, target)
    if good is None:
        return
    if rule is not None:
        both = (max(rule[0], good[0]), min(rule[1], good[1]))
        if both[0] <= both[1]:
            yield both
    yield good


def _by_weight(segment: Segment, target: Target) -> Interval | None:
    """Where the members' weights are equal and, if the new key can see to it, large enough."""
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


def _total_at(segment: Segment, target: Target, rule: Interval) -> float:
    """Weight on the members at the end of the interval that is worst for them."""
    inside = segment.index in target.members
    return target.total(segment.weights(rule[0] if inside else rule[1]))


def _by_output(segment: Segment, target: Target) -> Interval | None:
    """|(1 - w) u + w v_i - wanted| <= 0.05 in every entry: an interval of w, given in x."""
    assert target.values is not None
    start = (segment.others - target.wanted) @ target.values
    end = target.values[segment.index] - target.wanted @ target.values
    weight, rest = _between(start, end - start), _between(end, start - end)
    if weight is None or rest is None:
        return None
    return (logit(weight[0], rest[1]), logit(weight[1], rest[0]))


def _between(start: Array, slope: Array) -> Interval | None:
    """The w in [0, 1] with |start + w slope| <= 0.05 in every entry."""
    limit = TOLERANCE * (1 - 1e-9)
    flat = slope == 0
    if bool((np.abs(start[flat]) > limit).any()):
        return None
    a = (-limit - start[~flat]) / slope[~flat]
    b = (limit - start[~flat]) / slope[~flat]
    low = float(np.minimum(a, b).max(initial=0.0))
    high = float(np.maximum(a, b).min(initial=1.0))
    return (low, high) if low <= high else None


def _extreme(segment: Segment, target: Target) -> float:
    """The x that is best for the members where the goal cannot be met."""
    scores = member_scores(segment, target)
    if not scores.size:
        return segment.highest
    if segment.index not in target.members:
        return segment.lowest
    x = balanced_logit(segment, scores)
    return min((min(max(x, low), high) for low, high in segment.reach), key=lambda r: abs(r - x))


def _best(segment: Segment, target: Target) -> float:
    """`_extreme`, or where it is only a limit the nearest key within 1e-3 of it."""
    x = _extreme(segment, target)
    if math.isfinite(x):
        return x
    near = segment.nearest((-math.inf, logit(_NEAR, 1 - _NEAR)))
    assert near is not None  # the limit is at minus infinity, so every x can be reached
    return near


def _answer(segment: Segment, target: Target, x: float, attained: bool) -> Construction:
    """The key at x, judged by the attention it really gives."""
    key = segment.key_at(x)
    keys = segment.keys.copy()
    keys[segment.index] = key
    weights = attention_weights(keys, segment.query, segment.scale)
    met = target.met(weights)
    certificate, sentence = (
        (None, _found(segment, target, weights, key))
        if met
        else explain_infeasible(segment, target)
    )
    return Construction(
        feasible=met,
        why=sentence,
        query=segment.query,
        key=key,
        weights=weights,
        output=None if target.values is None else weights @ target.values,
        attained=attained,
        margin=_margin(segment, target, keys),
        norm=segment.length,
        certificate=certificate,
        residual=abs(segment.x_of(key) - x),
        also=_also(segment, target, weights, key),
    )


def _margin(segment: Segment, target: Target, keys: Array) -> float | None:
    """Least lead of a member's score over all others."""
    inside = target.wanted > 0
    if inside.all():
        return None
    scores = segment.scale * ((keys - segment.origin) @ segment.query)
    return float(scores[inside].min() - scores[~inside].max())


def _also(segment: Segment, target: Target, weights: Array, key: Array) -> dict[str, Any]:
    """What is reported beside the key."""
    found: dict[str, Any] = {
        "change": float(np.linalg.norm(key - segment.keys[segment.index])),
        "key_norm": float(np.linalg.norm(key)),
        "total": target.total(weights),
        "uneven": target.uneven(weights),
        "reach": [sigmoid(segment.lowest), sigmoid(segment.highest)],
    }
    if target.values is not None:
        found["wanted_output"] = target.wanted @ target.values
        found["output_error"] = target.output_error(weights)
    return found


def _found(segment: Segment, target: Target, weights: Array, key: Array) -> str:
    """One sentence on the key that was found."""
    moved = float(np.linalg.norm(key - segment.keys[segment.index]))
    which = "unit key" if segment.unit_norm else "key"
    who = list_keys(target.members)
    if len(target.members) == 1:
        what = f"puts weight {weights[target.members[0]]:.4g} on {who}"
    elif target.uneven(weights) <= EQUAL:
        each = float(weights[target.members].mean())
        what = f"averages {who}: {each:.4g} on each, {target.total(weights):.4g} in total"
    else:
        error = target.output_error(weights)
        what = f"gives the mean value of {who} within {error:.2g}, though not by equal weights"
    return f"With this {which} in place of key {segment.index} ({moved:.3g} away) the query {what}."


def _alone(segment: Segment, target: Target) -> Construction:
    """n = 1: the only key has weight 1 whatever it is."""
    old = segment.keys[0]
    size = float(np.linalg.norm(old))
    key = old.copy()
    if segment.unit_norm:
        key = old / size if size else np.eye(old.size)[0]
    return Construction(
        feasible=True,
        why="There is one key: it has weight 1 whatever it is.",
        query=segment.query,
        key=key,
        weights=np.ones(1),
        output=None if target.values is None else target.values[0].copy(),
        attained=True,
        norm=segment.length,
        also={"change": float(np.linalg.norm(key - old)), "key_norm": float(np.linalg.norm(key))},
    )
