"""Goals of attention: average:0,1,2 returns the mean of these values, select:2 one value alone.

A goal is met when the members' weights are equal and add up to `weight` or more (0.99 by default).
Where values are given and no weight is asked for, it is met when every entry of the output lies
within 0.05 of the wanted output, the mean of the members' values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from attnlab.construct.inputs import check_members, check_weight
from attnlab.construct.numerics import Array
from attnlab.core.errors import UsageError

WEIGHT = 0.99  # default total weight of the members
TOLERANCE = 0.05  # largest error of an entry of the output
EQUAL = 1e-6  # weights whose ratio differs from 1 by less count as equal
ROUNDING = 1e-9  # a total that is lower by less than this still counts

KINDS = ("average", "select")
_FORM = "a goal reads average:0,1,2 or select:2, with @0.95 for another weight"
_INDEX = re.compile("[0-9]{1,9}")


@dataclass(frozen=True)
class Goal:
    """`members` shall share the attention equally; a selection has one member."""

    kind: str
    members: tuple[int, ...]
    weight: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"{_FORM}: got {self.kind!r}")
        members = check_members(self.members, 10**9)
        if self.kind == "select" and len(members) != 1:
            raise UsageError(f"select takes one key and average any number: got {len(members)}")
        object.__setattr__(self, "members", tuple(members))
        if self.weight is not None:
            object.__setattr__(self, "weight", check_weight(self.weight))

    def __str__(self) -> str:
        """The form that `parse_goal` reads."""
        weight = "" if self.weight is None else f"@{self.weight!r}"
        return f"{self.kind}:{','.join(map(str, self.members))}{weight}"


def parse_goal(text: str) -> Goal:
    """Read average:0,1,2 or select:2, either with @ and the total weight, as in select:2@0.95."""
    kind, colon, rest = text.strip().partition(":")
    names, at, weight = rest.partition("@")
    words = [word.strip() for word in names.split(",")]
    try:
        if not colon or not all(_INDEX.fullmatch(word) for word in words):
            raise ValueError
        total = float(weight) if at else None
    except ValueError:
        raise UsageError(f"{_FORM}: got {text!r}") from None
    return Goal(kind.strip(), tuple(map(int, words)), total)


@dataclass(frozen=True, eq=False)
class Target:
    """A goal among n keys, the weights it wants and the values it is judged by."""

    goal: Goal
    wanted: Array  # weights: 1/m on each of m members, 0 elsewhere
    values: Array | None

    @staticmethod
    def of(goal: Goal | str, n: int, values: Array | None) -> Target:
        """Read the goal and check its members against n keys."""
        goal = parse_goal(goal) if isinstance(goal, str) else goal
        members = check_members(goal.members, n)
        wanted = np.zeros(n)
        wanted[members] = 1 / len(members)
        return Target(goal, wanted, values)

    @property
    def members(self) -> list[int]:
        """The indices of the members in increasing order."""
        return list(self.goal.members)

    @property
    def by_output(self) -> bool:
        """Whether the goal is judged by the output and not by the weights."""
        return self.values is not None and self.goal.weight is None

    @property
    def weight(self) -> float:
        """The total weight that the members shall have."""
        return WEIGHT if self.goal.weight is None else self.goal.weight

    def rest(self) -> float:
        """A weight on the other keys that meets the goal if the members' weights are equal.

        |output - wanted| <= rest * max over the others of |v_j - wanted|, entry by entry; a tenth
        of the tolerance is reserved for rounding.
        """
        if self.values is None or not self.by_output:
            return 1 - self.weight
        errors = np.abs(self.values - self.wanted @ self.values)[self.wanted == 0]
        worst = float(errors.max(initial=0.0))
        return min(1 - WEIGHT, 0.9 * TOLERANCE / worst) if worst > 0 else 1 - WEIGHT

    def total(self, weights: Array) -> float:
        """The total weight of the members."""
        return float(weights[self.members].sum())

    def uneven(self, weights: Array) -> float:
        """The ratio of the largest to the smallest weight of the members, minus 1."""
        least, most = float(weights[self.members].min()), float(weights[self.members].max())
        return most / least - 1 if least > 0 else float("inf" if most > 0 else 0)

    def output_error(self, weights: Array) -> float | None:
        """The largest entry of |output - wanted|; None without values."""
        if self.values is None:
            return None
        return float(np.abs((weights - self.wanted) @ self.values).max())

    def met(self, weights: Array) -> bool:
        """Whether these weights meet the goal, by the rule at the top of this file."""
        error = self.output_error(weights)
        if self.by_output and error is not None:
            return error <= TOLERANCE
        return self.total(weights) >= self.weight - ROUNDING and self.uneven(weights) <= EQUAL
