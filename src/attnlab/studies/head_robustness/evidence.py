"""The parts of the study, and the table condensed: exact lines, and estimates at their points.

equal lengths       every key N(μ_i, αI): part one of the exercise
one length varies   key a has αI + spread·μ_a μ_aᵀ: part two
beta, spread        part two again, with that number varied
noise               part one again, with α varied
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from attnlab.lab.table import Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.measure.shares import share_interval

if TYPE_CHECKING:
    from attnlab.studies.head_robustness.study import RobustnessSettings

EQUAL, VARIES, BETA, SPREAD, NOISE = "equal lengths", "one length varies", "beta", "spread", "noise"
SWEPT = {EQUAL: "beta", VARIES: "beta", BETA: "beta", SPREAD: "spread", NOISE: "alpha"}
ARMS = ("one", "two")
SHARES = frozenset({"one_off", "two_off", "negative", "off_and_lost"})  # of the draws of a seed


class Line(dict[str, np.ndarray]):
    """The exact law of a part: columns along "x", which rises; empty where it was not computed."""

    def at(self, x: float, name: str) -> float:
        """The column at a point of the line; NaN at any other: nothing is read between points."""
        points = zip(self.get("x", ()), self.get(name, ()), strict=False)
        return next((float(value) for point, value in points if point == x), math.nan)


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

    def laws(self, part: str) -> Table:
        """The trial that computed the exact law of a part, where there is one."""
        return self.table.where(kind="exact", part=part)

    def line(self, part: str) -> Line:
        """The exact law of a part at its points."""
        return Line((k, np.array(v)) for row in self.laws(part) for k, v in row.curves.items())

    def exact(self, part: str, name: str) -> float:
        """A number of the exact trial of a part; NaN where it was not computed."""
        known = [row[name] for row in self.laws(part) if row.get(name) is not None]
        return float(known[0]) if known else math.nan

    def ids(self, *parts: str) -> tuple[str, ...]:
        """The trials behind these parts, simulated and exact."""
        return tuple(i for part in parts for i in self.drawn(part).ids + self.laws(part).ids)


def paired(ours: dict[int, float], theirs: dict[int, float]) -> list[float]:
    """ours − theirs for every seed that has both: the same seed draws the same keys."""
    return [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
