"""Where a search of one setting should go on: beyond the end of its grid that was chosen.

    tried 0.001, 0.003, 0.01 and chosen 0.003     inside: the search is over
    tried 0.001, 0.003, 0.01 and chosen 0.01      at an end: the best may lie beyond, try 0.03

A value more than an order of magnitude away bounds nothing: a grid with such a gap has an end on
both sides of it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

ORDER = 10.001  # an order of magnitude, with room for rounding


def end_of(chosen: float, tried: Iterable[float]) -> str:
    """`smallest` or `largest` where no value tried lies near below or above; '' between two."""
    values = list(tried)
    if not any(chosen / ORDER <= value < chosen for value in values):
        return "smallest"
    return "" if any(chosen < value <= chosen * ORDER for value in values) else "largest"


@dataclass
class GrowingGrid:
    """The values of one setting that a search tried; a single value is no search and stays alone.

    factor   ratio of a new value to the end that it lies beyond
    most     new values in all
    digits   a new value is rounded to so many; a whole number stays whole
    limits   no value is tried outside them
    """

    tried: set[float]
    factor: float
    most: int
    digits: int = 1
    limits: tuple[float, float] = (0.0, math.inf)
    added: int = 0

    def beyond(self, chosen: Iterable[float]) -> float | None:
        """The next value to try, beyond a chosen one at an end; None where there is none.

        Several may be chosen, as by several judges: the smallest of them goes first. What is
        returned counts as tried.
        """
        if len(self.tried) < 2 or self.added >= self.most:
            return None
        for value in sorted(chosen):
            end = end_of(value, self.tried)
            new = self._next(value, end)
            if end and self.limits[0] <= new <= self.limits[1] and new not in self.tried:
                self.added += 1
                self.tried.add(new)
                return new
        return None

    def _next(self, value: float, end: str) -> float:
        new = value / self.factor if end == "smallest" else value * self.factor
        rounded = float(f"{new:.{self.digits}g}")
        return round(rounded) if isinstance(value, int) else rounded
