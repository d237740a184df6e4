"""The table condensed: the exact line of a part, and estimates over seeds at its points."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnlab.lab.table import Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.measure.shares import share_interval
from attnlab.studies.head_robustness.plan import BETA, SWEPT

if TYPE_CHECKING:
    from attnlab.studies.head_robustness.study import RobustnessSettings


SHARES = frozenset({"one_off", "two_off", "negative", "off_and_lost"})  # of the draws of a seed


@dataclass(frozen=True)
class Line:
    """The exact law of one part along the number it varies; empty where it was not computed."""

    columns: dict[str, np.ndarray]
    trials: tuple[str, ...] = ()

    @property
    def x(self) -> np.ndarray:
        """The points, rising."""
        return self["x"]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns.get(name, np.array([]))

    def at(self, x: float, name: str) -> float:
        """The column at a point of the line; NaN at any other: nothing is read between points."""
        index = np.flatnonzero(self.x == x)
        return float(self[name][index[0]]) if index.size else math.nan


@dataclass(frozen=True)
class Evidence:
    """Views of a run's table that claims, audits, figures and the discussion share."""

    table: Table
    settings: "RobustnessSettings"

    def drawn(self, part: str, x: float | None = None) -> Table:
        """The simulated trials of a part, or of one of its points."""
        rows = self.table.where(kind="draws", part=part)
        return rows if x is None else rows.where(**{SWEPT[part]: x})

    def points(self, part: str) -> list[float]:
        """The points of a part that were simulated."""
        return sorted({float(row[SWEPT[part]]) for row in self.drawn(part)})

    def over_seeds(self, part: str, name: str) -> list[Estimate]:
        """Mean and t interval at every point of a part."""
        return [self.estimate(part, name, x) for x in self.points(part)]

    def estimate(self, part: str, name: str, x: float | None = None) -> Estimate:
        """Mean over the seeds of a part or point; the interval of a share covers draws too."""
        rows = self.drawn(part, x)
        if name not in SHARES:
            return mean_interval(rows.column(name))
        known = [row for row in rows if row.get(name) is not None]
        return share_interval([(row[name] * row["draws"], row["draws"]) for row in known])

    def by_seed(self, part: str, x: float, name: str) -> dict[int, float]:
        """Seed -> number at one point."""
        return {row.seed: float(row[name]) for row in self.drawn(part, x)}

    def best_betas(self, arm: str) -> dict[int, tuple[float, float]]:
        """Seed -> (distance from the average, β) at the β of the sweep that comes closest."""
        by_beta = {beta: self.by_seed(BETA, beta, f"{arm}_square") for beta in self.points(BETA)}
        seeds = set.intersection(*map(set, by_beta.values())) if by_beta else set[int]()
        return {
            seed: min((math.sqrt(values[seed]), beta) for beta, values in by_beta.items())
            for seed in sorted(seeds)
        }

    def line(self, part: str) -> Line:
        """The exact law of a part."""
        rows = self.table.where(kind="exact", part=part).rows
        if not rows:
            return Line({})
        curves = {name: np.array(values) for name, values in rows[0].curves.items()}
        return Line(curves, (rows[0].id,))

    def exact(self, part: str, name: str) -> float:
        """A number of the exact trial of a part; NaN where it was not computed."""
        rows = self.table.where(kind="exact", part=part).rows
        value = rows[0].get(name) if rows else None
        return math.nan if value is None else float(value)

    def ids(self, *parts: str) -> tuple[str, ...]:
        """The trials behind these parts, simulated and exact."""
        return tuple(i for part in parts for i in self.drawn(part).ids + self.line(part).trials)


def paired(ours: dict[int, float], theirs: dict[int, float]) -> list[float]:
    """ours − theirs for every seed that has both: the same seed draws the same keys."""
    return [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
