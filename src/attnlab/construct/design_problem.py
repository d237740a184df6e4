"""Two goals of one query as conditions on scores: before keys are replaced, and after.

    members of a goal (keys that stay)    equal scores c                       linear
    everything else                       sum exp(score - c) <= m rest/(1-rest)   convex
    replaced members                      the same score c: |c| <= s|q| for unit keys
    replaced keys outside                 as low as they go: -s|q| for unit keys
    all members replaced                  as high as they go: s|q| for unit keys

s = scale, m members, rest = the weight that may stay outside. At given scores a longer q only
helps, so a part of q across all keys is always welcome; without unit length there is no limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnlab.construct.cone import Cone, find_long_direction
from attnlab.construct.goals import Target
from attnlab.construct.numerics import Array, log_sum_exp


@dataclass(frozen=True, eq=False)
class DesignProblem:
    """What is asked of q: `before` with the keys as given, `after` with the `free` ones new."""

    keys: Array
    scale: float
    before: Target | None
    after: Target
    free: tuple[int, ...]
    unit_norm: bool
    share: float = 0.1  # of what may stay outside, kept for replaced keys that must get out

    @cached_property
    def staying(self) -> list[int]:
        """Keys that are not replaced."""
        return [i for i in range(len(self.keys)) if i not in self.free]

    @cached_property
    def fixed(self) -> list[int]:
        """Members of the second goal that stay."""
        return [i for i in self.after.members if i not in self.free]

    @cached_property
    def joining(self) -> list[int]:
        """Replaced keys that are members of the second goal."""
        return [i for i in self.free if i in self.after.members]

    @cached_property
    def leaving(self) -> list[int]:
        """Replaced keys that are not."""
        return [i for i in self.free if i not in self.after.members]

    @cached_property
    def equations(self) -> Array:
        """Rows e with e . q = 0."""
        sets = [self.before.members] if self.before else []
        pairs = [(i, part[0]) for part in [*sets, self.fixed] for i in part[1:]]
        return np.array([self.keys[i] - self.keys[j] for i, j in pairs]).reshape(-1, self.width)

    @property
    def width(self) -> int:
        """h."""
        return self.keys.shape[1]

    @cached_property
    def rows_before(self) -> Array:
        """scale (k_i - k_member), i outside the first goal."""
        if self.before is None:
            return np.zeros((0, self.width))
        inside = self.before.members
        outside = [i for i in range(len(self.keys)) if i not in inside]
        return self.scale * (self.keys[outside] - self.keys[inside[0]])

    @cached_property
    def rows_after(self) -> Array:
        """scale (k_i - k_member), i outside the second goal, both staying."""
        if not self.fixed:
            return np.zeros((0, self.width))
        outside = [i for i in self.staying if i not in self.after.members]
        return self.scale * (self.keys[outside] - self.keys[self.fixed[0]])

    @cached_property
    def level_before(self) -> float:
        """log of what the first sum may be."""
        return _level(self.before) if self.before else math.inf

    @cached_property
    def level_after(self) -> float:
        """log of what the second sum may be."""
        return _level(self.after)

    @cached_property
    def level_staying(self) -> float:
        """The same for the keys that stay, a share kept back for those that must get out."""
        return self.level_after + (math.log1p(-self.share) if self.leaving else 0.0)

    @cached_property
    def cone(self) -> Cone:
        """The directions along which every score outside falls behind."""
        return Cone.of(np.vstack([self.rows_before, self.rows_after]), self.equations)

    @cached_property
    def limits(self) -> Array:
        """Rows l with l . d <= |d| asked of a direction by unit keys."""
        return np.vstack([self._equal_limits, self._other_limits])

    @property
    def _equal_limits(self) -> Array:
        """A new member must reach the others' score, up or down."""
        level = self.keys[self.fixed[:1]]
        return np.vstack([level, -level]) if self.joining else np.zeros((0, self.width))

    @property
    def _other_limits(self) -> Array:
        """New keys outside must get below the members; new members alone, above all that stay."""
        if not self.fixed:
            return self.keys[self.staying]
        return -self.keys[self.fixed[:1]] if self.leaving else np.zeros((0, self.width))

    @cached_property
    def far(self) -> tuple[Array | None, float]:
        """A direction in the closed cone that stays below every limit, or a bound that says no."""
        return find_long_direction(self.cone, self.limits) if len(self.limits) else (None, math.inf)

    @cached_property
    def necessary(self) -> tuple[Array | None, float]:
        """`far` with only what every solution must satisfy: a level above 0 lets scores pass it."""
        first, second = self.level_before <= 0, self.level_after <= 0
        rows = np.vstack(
            [
                self.rows_before if first else self.rows_before[:0],
                self.rows_after if second else self.rows_after[:0],
            ]
        )
        limits = self.limits if second else self._equal_limits
        if not len(limits):
            return None, math.inf
        return find_long_direction(Cone.of(rows, self.equations), limits)

    @property
    def needs_query(self) -> bool:
        """Whether a new key must score unlike the others, which q = 0 forbids."""
        return bool(self.free) and (bool(self.leaving) or not self.fixed)

    def reach(self, q: Array) -> float:
        """The largest score a replaced key may have."""
        return self.scale * float(np.linalg.norm(q)) if self.unit_norm else math.inf

    def excess(self, q: Array) -> float:
        """The largest of all conditions at q, 0 or less where they hold."""
        reach = self.reach(q)
        found = -math.inf
        if len(self.rows_before):
            found = log_sum_exp(self.rows_before @ q) - self.level_before
        if not self.free or not q.any():
            return max(found, self._uniform(q))
        if not self.fixed:
            return max(found, self._all_new(q, reach))
        level = self.scale * float(self.keys[self.fixed[0]] @ q)
        low = np.full(len(self.leaving), -reach - level)
        found = max(found, self._after(np.concatenate([self.rows_after @ q, low])))
        if self.joining and self.unit_norm:
            off = abs(level) - reach
            # In one dimension a unit key is 1 or -1: only the ends can be had.
            found = max(found, abs(off) if self.width == 1 else off)
        return found

    def _after(self, scores: Array) -> float:
        """Without a limit on their length new keys outside get the share kept back for them."""
        scores = scores[scores > -math.inf]
        level = self.level_after if self.unit_norm else self.level_staying
        return log_sum_exp(scores) - level if scores.size else -math.inf

    def _all_new(self, q: Array, reach: float) -> float:
        """Every member is replaced and stands at the highest score there is."""
        if not self.unit_norm:
            return -math.inf
        scores = self.scale * (self.keys[self.staying] @ q) - reach
        return self._after(np.append(scores, np.full(len(self.leaving), -2 * reach)))

    def _uniform(self, q: Array) -> float:
        """No key is replaced, or q = 0 sees none: the second goal with the scores as they are."""
        scores = self.scale * (self.keys @ q)
        inside = self.after.members
        outside = [i for i in range(len(self.keys)) if i not in inside]
        return self._after(scores[outside] - scores[inside[0]])


def _level(target: Target) -> float:
    rest = target.rest()
    return math.log(len(target.members)) + math.log(rest) - math.log1p(-rest)
