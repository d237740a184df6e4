"""Averaging two values with one head or two, when the keys are random: a course exercise.

equal lengths       every key N(μ_i, αI): part one of the exercise
one length varies   key a has αI + spread·μ_a μ_aᵀ: part two
beta, spread        part two again, with that number varied
noise               part one again, with α varied
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import model_validator

from attnlab.lab.study import Study, StudySettings, deferred, setting
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.measure.shares import share_interval

EQUAL, VARIES, BETA, SPREAD, NOISE = "equal lengths", "one length varies", "beta", "spread", "noise"
SWEPT = {EQUAL: "beta", VARIES: "beta", BETA: "beta", SPREAD: "spread", NOISE: "alpha"}
ARMS = ("one", "two")
SHARES = frozenset({"one_off", "two_off", "negative", "off_and_lost"})  # of the draws of a seed
Grid = tuple[float, ...]
POINT = ("keys", "dims", "alpha", "spread", "beta", "tolerance")


def _grid(text: str) -> list[float]:
    return [float(value) for value in text.split()]


class RobustnessSettings(StudySettings):
    """Keys k_i ~ N(μ_i, αI), orthonormal μ_i; key a has the covariance αI + spread·μ_a μ_aᵀ."""

    seeds: int = setting("independent sets of draws per point", 8, smoke=3, full=20, ge=1)
    draws: int = setting(
        "sets of keys drawn per point and seed", 20_000, smoke=3000, full=50_000, ge=10
    )
    keys: int = setting("n, number of keys; the first two are a and b", 8, smoke=5, full=32, ge=2)
    dims: int = setting(
        "h, dimensions; at least n, since the means are orthonormal", 16, smoke=7, full=64, ge=2
    )
    alpha: float = setting("α, variance of every key in every direction", 1e-4, ge=0, le=10)
    spread: float = setting("variance of k_a along its own mean: its length", 0.5, gt=0, le=10)
    beta: float = setting(
        "β: one head's query is β(μ_a + μ_b), two heads' are βμ_a and βμ_b", 10.0, gt=0, le=1e4
    )
    tolerance: float = setting(
        "an output is off if its weight of v_a or v_b is further than this from 1/2; "
        "1/4 is half-way between the average and one value alone",
        0.25,
        gt=0,
        lt=0.5,
    )
    betas: Grid = setting(
        "values of β swept",
        (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 40.0, 80.0),
        smoke=(2.0, 10.0, 60.0),
        full=_grid("1 1.5 2 3 4 5 6 8 10 14 20 30 40 60 80 150"),
    )
    spreads: Grid = setting(
        "spreads swept",
        (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0),
        smoke=(0.05, 0.5, 2.0),
        full=_grid("0.01 0.02 0.03 0.05 0.07 0.1 0.15 0.2 0.3 0.5 0.7 1 1.5 2 4"),
    )
    alphas: Grid = setting(
        "values of α swept, the same for all keys",
        (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
        smoke=(1e-4, 1e-2, 1e-1),
        full=_grid(
            "1e-5 3e-5 1e-4 2e-4 3e-4 5e-4 1e-3 2e-3 3e-3 5e-3 1e-2 2e-2 3e-2 5e-2 1e-1 2e-1"
        ),
    )
    line_points: int = setting(
        "points of each exact line between those of the sweep", 64, smoke=6, full=60, ge=0
    )
    shown: int = setting("draws shown one by one in a figure", 600, smoke=150, ge=1)

    @model_validator(mode="after")
    def _grids_are_usable(self) -> "RobustnessSettings":
        if self.dims < self.keys:
            raise ValueError(f"{self.keys} orthonormal means need dims of at least {self.keys}")
        for name in ("betas", "spreads", "alphas"):
            grid = getattr(self, name)
            if len(grid) < 2 or min(grid) <= 0 or len(set(grid)) < len(grid):
                raise ValueError(f"{name} must be two or more different positive numbers")
        return self


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
    settings: RobustnessSettings

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


class HeadRobustness(Study):
    """One query β(μ_a + μ_b), or two queries βμ_a and βμ_b, on keys whose lengths vary."""

    name = "head-robustness"
    question = "Do two heads average two values more reliably than one when a key's length varies?"
    source = "Course exercise on multi-head attention: keys around orthonormal means, one long axis"
    Settings: ClassVar[type[StudySettings]] = RobustnessSettings
    settings: RobustnessSettings
    expected: ClassVar = {
        "smoke": "about 10 seconds on two cores",
        "quick": "about 1 minute on two cores",
        "full": "not measured",
    }
    template = "report.md"

    run = deferred(".trial:run")
    claims = deferred(".claims:claims")
    audits = deferred(".checks:audits")
    figures = deferred(".figures:figures")
    facts = deferred(".claims:facts")

    def trials(self) -> Sequence[Trial]:
        """Draws at every point with every seed; the exact laws first, for they take longest."""
        s = self.settings
        grids = {BETA: s.betas, SPREAD: s.spreads, NOISE: s.alphas}
        points = {part: sorted(grids.get(part, (s.beta,))) for part in SWEPT}
        usual = {key: getattr(s, key) for key in POINT}
        equal = {**usual, "spread": 0.0}
        base = {part: equal if part in (EQUAL, NOISE) else usual for part in SWEPT}
        exact = [
            self.trial(0, kind="exact", part=part, x=line(values, s.line_points), **base[part])
            for part, values in points.items()
        ]
        return exact + [
            self.trial(
                seed,
                kind="draws",
                part=part,
                draws=s.draws,
                shown=s.shown if seed == 0 and part in (EQUAL, VARIES) else 0,
                **{**base[part], SWEPT[part]: value},
            )
            for part, values in points.items()
            for value in values
            for seed in range(s.seeds)
        ]

    def evidence(self, table: Table) -> Evidence:
        """The table by part and point."""
        return Evidence(table, self.settings)


def line(values: Sequence[float], between: int) -> list[float]:
    """The values themselves, and this many more spaced evenly in the logarithm over their range."""
    low, high = min(values), max(values)
    more = np.geomspace(low, high, between + 2)[1:-1] if high > low else []
    return sorted({*values, *(float(f"{x:.6g}") for x in more)})
