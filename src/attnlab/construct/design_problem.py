"""The two goals of a design, before and after keys are replaced, as conditions on scores.

    members of a goal (keys that stay)    equal scores c                          linear
    all other keys that stay              sum exp(score - c) <= m rest/(1-rest)   convex
    replaced members                      the same score c: |c| <= s|q| for unit keys
    replaced keys outside                 the lowest score: -s|q| for unit keys
    all members replaced                  the highest score: s|q| for unit keys

s is the scale, m the number of members, rest the weight that may stay outside. At given scores a
longer q only helps, so a part of q orthogonal to all keys never hurts; keys of any length have no
limit on their scores.

`shortest_query` minimises |q| subject to the convex conditions, with cvxpy and Clarabel. The one
that is not convex, score <= s|q|, is replaced by score <= s u.q for a unit vector u. That is
stricter, so a solution remains valid; solving again with u = q/|q| can only shorten it.
"""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attnlab.construct.cone import Cone, find_long_direction
from attnlab.construct.goals import Target
from attnlab.construct.numerics import Array, log_sum_exp, norm

_INSIDE = 1e-6  # distance kept from a level: more than the solver's error


@dataclass(frozen=True, eq=False)
class DesignProblem:
    """A query shall meet `before` with the keys as given and `after` once `free` are replaced."""

    keys: Array
    scale: float
    before: Target | None
    after: Target
    free: tuple[int, ...]
    unit_norm: bool
    share: float = 0.1  # of the weight outside, reserved for replaced keys outside the goal

    @cached_property
    def staying(self) -> list[int]:
        """The keys that are not replaced."""
        return [i for i in range(len(self.keys)) if i not in self.free]

    @cached_property
    def fixed(self) -> list[int]:
        """The members of the second goal that are not replaced."""
        return [i for i in self.after.members if i not in self.free]

    @cached_property
    def joining(self) -> list[int]:
        """The replaced keys that are members of the second goal."""
        return [i for i in self.free if i in self.after.members]

    @cached_property
    def leaving(self) -> list[int]:
        """The replaced keys that are not members of the second goal."""
        return [i for i in self.free if i not in self.after.members]

    @cached_property
    def outside(self) -> list[int]:
        """The keys outside the second goal that are not replaced."""
        return [i for i in self.staying if i not in self.after.members]

    @property
    def width(self) -> int:
        """The dimension h of keys and query."""
        return self.keys.shape[1]

    @cached_property
    def equations(self) -> Array:
        """Rows e with e . q = 0: members of a goal that stay have equal scores."""
        sets = [self.before.members if self.before else [], self.fixed]
        return self._differences([(i, part[0]) for part in sets for i in part[1:]])

    @cached_property
    def pairs_before(self) -> list[tuple[int, int]]:
        """(i, member) for every key i outside the first goal."""
        inside = self.before.members if self.before else []
        return [(i, m) for m in inside[:1] for i in range(len(self.keys)) if i not in inside]

    @cached_property
    def pairs_after(self) -> list[tuple[int, int]]:
        """(i, member) for every key i that stays outside the second goal."""
        return [(i, m) for m in self.fixed[:1] for i in self.outside]

    @cached_property
    def rows_before(self) -> Array:
        """scale (k_i - k_member) for the pairs before the change."""
        return self.scale * self._differences(self.pairs_before)

    @cached_property
    def rows_after(self) -> Array:
        """scale (k_i - k_member) for the pairs after the change."""
        return self.scale * self._differences(self.pairs_after)

    def _differences(self, pairs: list[tuple[int, int]]) -> Array:
        first, second = np.array(pairs, np.intp).reshape(-1, 2).T
        return self.keys[first] - self.keys[second]

    @cached_property
    def level_before(self) -> float:
        """The largest log sum exp of `rows_before` @ q that meets the first goal."""
        return _level(self.before) if self.before else math.inf

    @cached_property
    def level_after(self) -> float:
        """The largest log sum exp, over all keys outside, that meets the second goal."""
        return _level(self.after)

    @cached_property
    def level_staying(self) -> float:
        """The same for the keys that stay, with a share reserved for the replaced keys outside."""
        return self.level_after + (math.log1p(-self.share) if self.leaving else 0.0)

    @cached_property
    def cone(self) -> Cone:
        """The directions along which every score outside falls below those of the members."""
        return Cone.of(np.vstack([self.rows_before, self.rows_after]), self.equations)

    def long_direction(self, necessary: bool = False) -> tuple[Array | None, float]:
        """A direction d in the closed cone for unit keys, or a bound that excludes it.

        For every limit l, l . d <= |d|: a new member must be able to have the score of the others,
        positive or negative; new keys outside must score below the members, all-new members above
        the rest. `necessary` leaves out what not every solution must satisfy: the rows of a goal
        with a level above 0 may have positive scores.
        """
        first, second = (
            not necessary or level <= 0 for level in (self.level_before, self.level_after)
        )
        none, member = np.zeros((0, self.width)), self.keys[self.fixed[:1]]
        limits = [member, -member] if self.joining else [none]
        if second and not self.fixed:
            limits.append(self.keys[self.staying])
        elif second and self.leaving:
            limits.append(-member)
        if not any(map(len, limits)):
            return None, math.inf
        rows = [self.rows_before if first else none, self.rows_after if second else none]
        return find_long_direction(Cone.of(np.vstack(rows), self.equations), np.vstack(limits))

    def reach(self, q: Array) -> float:
        """The largest score that a replaced key can have."""
        return self.scale * norm(q) if self.unit_norm else math.inf

    def excess(self, q: Array) -> float:
        """The largest violation of a condition at q; 0 or less where all hold."""
        reach = self.reach(q)
        excess = -math.inf
        if len(self.rows_before):
            excess = log_sum_exp(self.rows_before @ q) - self.level_before
        if not self.free or not q.any():
            return max(excess, self._excess_unreplaced(q))
        if not self.fixed:
            return max(excess, self._excess_all_new(q, reach))
        level = self.scale * float(self.keys[self.fixed[0]] @ q)
        low = np.full(len(self.leaving), -reach - level)
        excess = max(excess, self._excess_after(np.concatenate([self.rows_after @ q, low])))
        if self.joining and self.unit_norm:
            beyond = abs(level) - reach
            # In one dimension a unit key is 1 or -1: only the two ends are possible.
            excess = max(excess, abs(beyond) if self.width == 1 else beyond)
        return excess

    def _excess_after(self, scores: Array) -> float:
        """The violation of the second goal; new keys of any length use their reserved share."""
        scores = scores[scores > -math.inf]
        level = self.level_after if self.unit_norm else self.level_staying
        return log_sum_exp(scores) - level if scores.size else -math.inf

    def _excess_all_new(self, q: Array, reach: float) -> float:
        """The violation where every member is replaced and has the highest possible score."""
        if not self.unit_norm:
            return -math.inf
        scores = self.scale * (self.keys[self.staying] @ q) - reach
        return self._excess_after(np.append(scores, np.full(len(self.leaving), -2 * reach)))

    def _excess_unreplaced(self, q: Array) -> float:
        """The violation with the scores as they are: no key is replaced, or q = 0."""
        scores, inside = self.scale * (self.keys @ q), self.after.members
        return self._excess_after(np.delete(scores, inside) - scores[inside[0]])


def _level(target: Target) -> float:
    """log(m rest / (1 - rest)), m the number of members."""
    rest = target.rest()
    return math.log(len(target.members)) + math.log(rest) - math.log1p(-rest)


def shortest_query(problem: DesignProblem, along: Array | None = None) -> Array | None:
    """The shortest q, or None where there is none or the solver gives up.

    Without `along`, only the conditions on keys that stay count; the replaced keys are free.
    """
    import cvxpy as cp

    basis = problem.cone.basis
    if basis.shape[1] == 0:
        return np.zeros(problem.width)
    reduced = problem.scale * (problem.keys @ basis)
    # The solver is most accurate when the rows are of order 1.
    size = float(np.linalg.norm(np.vstack([problem.cone.inside, reduced]), axis=1).max()) or 1.0
    first, second = np.split(problem.cone.inside / size, [len(problem.rows_before)])
    y = cp.Variable(basis.shape[1])
    constraints: list[Any] = []
    if len(first):
        constraints.append(cp.log_sum_exp(first @ y) <= problem.level_before - _INSIDE)
    if along is not None:
        constraints += _key_constraints(
            problem, y, reduced / size, problem.scale * (along @ basis) / size
        )
    elif len(second):
        constraints.append(cp.log_sum_exp(second @ y) <= problem.level_staying - _INSIDE)
    if not constraints:
        return np.zeros(problem.width)
    if not solve_problem(cp.Problem(cp.Minimize(cp.sum_squares(y)), constraints)):
        return None
    return basis @ np.asarray(y.value, np.float64) / size


def _key_constraints(problem: DesignProblem, y: Any, reduced: Array, along: Array) -> list[Any]:
    """The second goal for replaced keys with scores between -along . y and along . y."""
    import cvxpy as cp

    reach = along @ y
    constraints: list[Any] = []
    level = reduced[problem.fixed[0]] @ y if problem.fixed else reach
    parts = [reduced[problem.outside] @ y - level] if problem.outside else []
    parts += [cp.reshape(-reach - level, (1,), order="C")] * len(problem.leaving)
    if parts:
        constraints.append(cp.log_sum_exp(cp.hstack(parts)) <= problem.level_after - _INSIDE)
    if problem.fixed and problem.joining:
        constraints += [level <= reach, -level <= reach]
    return constraints


def solve_problem(problem: Any) -> bool:
    """Solve with Clarabel; whether it reports an optimum."""
    import cvxpy as cp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # callers check an inaccurate solution themselves
        try:
            problem.solve(solver=cp.CLARABEL)
        except (cp.SolverError, ValueError):
            return False
    return problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
