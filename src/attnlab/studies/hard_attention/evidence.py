"""The table read: slopes by temperature, arms at the learning rate that suits each best."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnlab.lab.table import Table
from attnlab.measure.intervals import Estimate, mean_interval

BASELINES = {
    "chance": "chance",
    "majority": "most frequent answer",
    "one_item": "one item, whatever is asked",
    "most_frequent": "the row's most frequent value",
}


@dataclass(frozen=True)
class Evidence:
    """What the claims, figures and paragraphs ask of the table."""

    table: Table

    @property
    def slopes(self) -> Table:
        """One row a set of random instances."""
        return self.table.where(kind="slopes")

    @property
    def temperatures(self) -> list[float]:
        """The grid, as measured; empty where nothing was."""
        rows = self.slopes.rows
        return list(rows[0].curves["temperature"]) if rows else []

    def medians(self, name: str) -> np.ndarray:
        """sets × temperatures of a curve."""
        return np.array([row.curves[name] for row in self.slopes])

    def curve(self, name: str) -> list[Estimate]:
        """Geometric mean over sets at each temperature, with its t interval in the logarithm."""
        return [geometric(column) for column in self.medians(name).T]

    def peak(self, name: str) -> int:
        """Place on the grid where the mean curve over all sets is highest."""
        return int(np.argmax([e.value for e in self.curve(name)]))

    def ratio(self, name: str, above: int, below: int) -> list[float]:
        """log(slope at one place of the grid / at another), a set."""
        found = self.medians(name)
        with np.errstate(divide="ignore"):
            return list(np.log(found[:, above] / found[:, below])) if found.size else []

    def rates(self, arm: str) -> dict[float, Table]:
        """Learning rate -> the models trained at it."""
        return {rate: rows for (rate,), rows in self._models(arm).groups("rate").items()}

    def best(self, arm: str) -> Table:
        """The models at the rate with the highest mean accuracy on dev rows."""
        found = self.rates(arm)
        if not found:
            return Table([])
        return max(found.values(), key=lambda rows: float(rows.column("dev_accuracy").mean()))

    def values(self, arm: str, metric: str) -> dict[int, float]:
        """Seed -> metric, at the arm's best rate; one that does not exist is left out."""
        found = {row.seed: row.get(metric) for row in self.best(arm)}
        return {seed: float(v) for seed, v in found.items() if v is not None}

    def estimate(self, arm: str, metric: str) -> Estimate:
        """Mean over seeds."""
        return mean_interval(list(self.values(arm, metric).values()))

    def differences(self, one: tuple[str, str], other: tuple[str, str]) -> list[float]:
        """(arm, metric) − (arm, metric), paired by seed: same start, same rows."""
        a, b = self.values(*one), self.values(*other)
        return [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]

    def baseline(self, name: str) -> float:
        """Accuracy of a rule that needs no model, mean over the seeds' test rows."""
        rows = self.table.where(kind="baselines")
        return float(rows.column(name).mean()) if len(rows) else math.nan

    def names(self) -> list[str]:
        """The arms that ended, in the order of the plan."""
        found = {r["arm"]: r["order"] for r in self.table.where(kind="model").done()}
        return sorted(found, key=lambda name: found[name])

    def ids(self, *arms: str) -> list[str]:
        """The trials behind these arms, at the rates they are reported at."""
        return [row.id for arm in arms for row in self.best(arm)]

    def _models(self, arm: str) -> Table:
        return self.table.where(kind="model", arm=arm).done()


def geometric(values: Sequence[float] | np.ndarray) -> Estimate:
    """exp(mean of logs) with its t interval; where a value is 0, the plain mean without one."""
    v = np.asarray(values, dtype=float)
    if not v.size or not np.all(v > 0):
        return Estimate(float(v.mean()) if v.size else math.nan, n=int(v.size))
    return exponential(mean_interval(np.log(v)))


def exponential(logs: Estimate) -> Estimate:
    """An estimate of a logarithm as one of the quantity itself."""
    low, high = (
        (math.exp(logs.low), math.exp(logs.high)) if logs.has_interval else (math.nan, math.nan)
    )
    return Estimate(math.exp(logs.value), low, high, logs.n, f"exp of: {logs.method}")
