"""Replacing key i moves the attention along a segment: weights(w) = (1 - w) * others + w * e_i.

The other keys keep their scores, so their weights keep their ratios whatever the new key is. Only
the weight w = sigmoid(x) of the new key can be chosen, x = its score - log sum exp(other scores).
The output moves on the segment from the output of the others alone to v_i. Which x are possible:

    any key, q != 0      every x
    unit length          |score| <= scale * |q|; in one dimension only the two ends
    q = 0                one x, because all scores are 0

Why no new key meets the goal, one of four reasons, each with the numbers that prove it:

    fixed-ratio    two members that stay have different scores: their weights keep a ratio exp(gap)
    unit-key       a unit key scores at most scale * |q|:
                   w_i <= e^{s|q|} / (e^{s|q|} + sum over the others of e^{s q.k_j})
    fixed-rest     keys outside the set keep their scores, and with them too much weight
    zero-query     q = 0: every weight is 1/n
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attnlab.construct.goals import EQUAL, TOLERANCE, Target
from attnlab.construct.numerics import Array, Indices, log_sum_exp, norm, sigmoid
from attnlab.construct.result import name_keys

Interval = tuple[float, float]
Reason = tuple[dict[str, Any], str]  # the certificate and its sentence


@dataclass(frozen=True, eq=False)
class Segment:
    """Key `index` may be replaced; the query and all other keys (at least one) stay."""

    keys: Array
    query: Array
    index: int
    scale: float
    unit_norm: bool

    @cached_property
    def length(self) -> float:
        """The norm of the query."""
        return norm(self.query)

    @cached_property
    def direction(self) -> Array:
        """The query scaled to length one; zero where the query is zero."""
        return self.query / self.length if self.length > 0 else self.query

    @cached_property
    def other(self) -> Indices:
        """The indices of the keys that stay."""
        return np.delete(np.arange(len(self.keys), dtype=np.intp), self.index)

    @cached_property
    def origin(self) -> Array:
        """The key that scores are measured from: a common offset then costs no digits."""
        return self.keys[self.other[int(np.argmax(self.keys[self.other] @ self.query))]]

    @cached_property
    def scores(self) -> Array:
        """Scores of the keys that stay, relative to the highest of them."""
        return self.scale * ((self.keys[self.other] - self.origin) @ self.query)

    @cached_property
    def level(self) -> float:
        """log sum exp of these scores."""
        return log_sum_exp(self.scores)

    @cached_property
    def others(self) -> Array:
        """The weights of all keys if key i did not exist; 0 at i."""
        weights = np.zeros(len(self.keys))
        weights[self.other] = np.exp(self.scores - self.level)
        return weights

    def weights(self, x: float) -> Array:
        """The attention where the new key has logit x: (1 - w) * others + w * e_i."""
        weights = sigmoid(-x) * self.others
        weights[self.index] = sigmoid(x)
        return weights

    def x_of(self, key: Array) -> float:
        """The logit of the weight that this key would get."""
        return self.scale * float((key - self.origin) @ self.query) - self.level

    @cached_property
    def bound(self) -> float:
        """The largest score that a unit key can have: scale * |q|."""
        return self.scale * self.length

    @cached_property
    def base(self) -> float:
        """The score of a key with x = 0."""
        return self.level + self.scale * float(self.origin @ self.query)

    @cached_property
    def reach(self) -> tuple[Interval, ...]:
        """The intervals of x that a new key can have."""
        if self.length == 0:
            return ((-self.level, -self.level),)
        if not self.unit_norm:
            return ((-math.inf, math.inf),)
        low, high = -self.bound - self.base, self.bound - self.base
        return ((low, low), (high, high)) if self.keys.shape[1] == 1 else ((low, high),)

    @property
    def lowest(self) -> float:
        """The smallest x that a new key can have."""
        return self.reach[0][0]

    @property
    def highest(self) -> float:
        """The largest x that a new key can have."""
        return self.reach[-1][1]

    def nearest(self, wanted: Interval) -> float | None:
        """The possible x within `wanted` whose key is closest to the old one, or None."""
        slack = 1e-12 * (1 + abs(self.base) + abs(self.level))
        possible: list[float] = []
        for low, high in self.reach:
            a, b = max(low, wanted[0]), min(high, wanted[1])
            if a <= b + slack:
                x = min(max(self._closest, min(a, b)), max(a, b))
                possible.append(min(max(x, low), high))
        finite = (x for x in possible if math.isfinite(x))
        return min(finite, key=lambda x: norm(self.key_at(x) - self.keys[self.index]), default=None)

    @cached_property
    def _closest(self) -> float:
        """x of the closest key allowed: the old key, or the unit vector along it."""
        old = self.keys[self.index]
        if not self.unit_norm or self.length == 0:
            return self.x_of(old)
        size = norm(old)
        return self.bound * float(old @ self.direction) / size - self.base if size else -self.base

    def key_at(self, x: float) -> Array:
        """The key with logit x that is closest to the old one.

        Any length: k + (change of score) q / (scale |q|^2). Unit length: c q/|q| + sqrt(1 - c^2) u,
        with u the unit vector along the part of k that is orthogonal to q.
        """
        old = self.keys[self.index]
        if not self.unit_norm:
            if self.length == 0:
                return old.copy()
            key = old + (x - self.x_of(old)) / self.bound * self.direction
            return key + (x - self.x_of(key)) / self.bound * self.direction  # corrects rounding
        if self.length == 0:
            size = norm(old)
            return old / size if size else np.eye(old.size)[0]
        cosine = min(max((x + self.base) / self.bound, -1.0), 1.0)
        if old.size == 1:
            return math.copysign(1.0, cosine) * self.direction
        key = cosine * self.direction
        key = key + math.sqrt((1 - cosine) * (1 + cosine)) * orthogonal_unit(old, self.direction)
        return key / norm(key)


def orthogonal_unit(vector: Array, direction: Array) -> Array:
    """The unit vector along the part of `vector` that is orthogonal to `direction`.

    Where that part vanishes any orthogonal unit vector will do: it is made from a coordinate axis.
    """
    for start in (vector, np.eye(direction.size)[int(np.argmin(np.abs(direction)))]):
        part = start - (start @ direction) * direction
        part = part - (part @ direction) * direction
        size = norm(part)
        if size > 1e-13 * norm(start):
            return part / size
    raise ValueError("in one dimension no vector is orthogonal to the direction")


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
