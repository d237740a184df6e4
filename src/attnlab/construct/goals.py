"""What attention is to do: average:0,1,2 = the mean of these values; select:2 = this value alone.

A goal is met when

    the members' weights are equal and add up to `weight` or more (0.99 unless told otherwise);
    where values are given and no weight was asked for: every entry of the output lies within
    0.05 of the wanted output, the mean of the members' values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.inputs import check_members, check_weight
from attnlab.core.errors import UsageError

Array = NDArray[np.float64]

WEIGHT = 0.99  # total on the members, where no other is asked for
TOLERANCE = 0.05  # of every entry of the output
EQUAL = 1e-6  # weights whose ratio is this near to 1 count as equal
ROUNDING = 1e-9  # a weight this far below the wanted one still counts

KINDS = ("average", "select")
_FORM = "a goal reads average:0,1,2 or select:2, with @0.95 for another weight"
_DIGITS = 9  # an index has no more


@dataclass(frozen=True)
class Goal:
    """`members` share the attention equally; a selection has one member."""

    kind: str
    members: tuple[int, ...]
    weight: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"{_FORM}: got {self.kind!r}")
        members = check_members(self.members, 10**_DIGITS)
        if self.kind == "select" and len(members) != 1:
            raise UsageError(f"select names one key, average any number: got {len(members)}")
        object.__setattr__(self, "members", tuple(members))
        if self.weight is not None:
            object.__setattr__(self, "weight", check_weight(self.weight))

    def __str__(self) -> str:
        """As `parse_goal` reads it."""
        weight = "" if self.weight is None else f"@{self.weight!r}"
        return f"{self.kind}:{','.join(map(str, self.members))}{weight}"


def parse_goal(text: str) -> Goal:
    """average:0,1,2 · select:2 · either with @ and the total weight wanted."""
    kind, colon, rest = text.strip().partition(":")
    names, at, weight = rest.partition("@")
    words = [word.strip() for word in names.split(",")]
    whole = all(word.isascii() and word.isdigit() and len(word) <= _DIGITS for word in words)
    if not colon or not whole or (at and not _is_number(weight)):
        raise UsageError(f"{_FORM}: got {text!r}")
    return Goal(kind.strip(), tuple(map(int, words)), float(weight) if at else None)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class Target:
    """A goal among n keys, and the values it is judged by."""

    goal: Goal
    wanted: Array  # the weights: 1/m on each of m members, 0 elsewhere
    values: Array | None

    @staticmethod
    def of(goal: Goal | str, n: int, values: Array | None) -> Target:
        """The goal, with its members checked against n keys."""
        goal = parse_goal(goal) if isinstance(goal, str) else goal
        members = check_members(goal.members, n)
        wanted = np.zeros(n)
        wanted[members] = 1 / len(members)
        return Target(goal, wanted, values)

    @property
    def members(self) -> list[int]:
        """In increasing order."""
        return list(self.goal.members)

    @property
    def by_output(self) -> bool:
        """Whether the output decides, not the weights."""
        return self.values is not None and self.goal.weight is None

    @property
    def weight(self) -> float:
        """The total that is asked for on the members."""
        return WEIGHT if self.goal.weight is None else self.goal.weight

    def rest(self) -> float:
        """A weight outside the members that is always small enough, where theirs are equal.

        |output - wanted| <= rest * max over the others of |v_j - wanted|, entry by entry; a tenth
        of the tolerance is kept for rounding.
        """
        if self.values is None or not self.by_output:
            return 1 - self.weight
        off = np.abs(self.values - self.wanted @ self.values)[self.wanted == 0]
        worst = float(off.max(initial=0.0))
        return min(1 - WEIGHT, 0.9 * TOLERANCE / worst) if worst > 0 else 1 - WEIGHT

    def total(self, weights: Array) -> float:
        """The weight on the members."""
        return float(weights[self.members].sum())

    def uneven(self, weights: Array) -> float:
        """Largest over smallest weight of the members, less 1."""
        least, most = float(weights[self.members].min()), float(weights[self.members].max())
        return most / least - 1 if least > 0 else float("inf" if most > 0 else 0)

    def output_error(self, weights: Array) -> float | None:
        """Largest entry of |output - wanted|; None without values."""
        if self.values is None:
            return None
        return float(np.abs((weights - self.wanted) @ self.values).max())

    def met(self, weights: Array) -> bool:
        """The rule at the head of this file."""
        error = self.output_error(weights)
        if self.by_output and error is not None:
            return error <= TOLERANCE
        return self.total(weights) >= self.weight - ROUNDING and self.uneven(weights) <= EQUAL
