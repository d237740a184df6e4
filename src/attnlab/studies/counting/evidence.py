"""Starts of a run, seed by seed: the same rows for every start."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.counting.settings import ARMS

LABELS = {
    "positional": "start by places",
    "semantic": "start by tokens",
    "free": "free start",
    "off": "attention off",
}
PHASES = {"first": "as trained", "gentle": "freed, SGD", "strong": "freed, AdamW"}
OWN = {"positional": "by_places", "semantic": "by_tokens"}  # what a start may make its scores of


@dataclass(frozen=True)
class Starts:
    """The trials that ended."""

    table: Table

    def names(self) -> list[str]:
        """Starts with a trial, in their fixed order."""
        return [arm for arm in ARMS if self.rows(arm)]

    def rows(self, arm: str) -> list[Row]:
        """One row a seed, sorted by seed."""
        return sorted(self.table.where(arm=arm), key=lambda row: row.seed)

    def values(self, arm: str, metric: str) -> dict[int, float]:
        """Seed -> metric; a seed without it is left out."""
        found = {row.seed: row.get(metric) for row in self.rows(arm)}
        return {seed: float(v) for seed, v in found.items() if v is not None}

    def estimate(self, arm: str, metric: str) -> Estimate:
        """Mean over seeds with its t interval."""
        return mean_interval(list(self.values(arm, metric).values()))

    def gaps(
        self, one: tuple[str, str], other: tuple[str, str], only: Collection[int] | None = None
    ) -> list[float]:
        """(start, metric) − (start, metric), a seed."""
        a, b = self.values(*one), self.values(*other)
        seeds = sorted(a.keys() & b.keys())
        return [a[seed] - b[seed] for seed in seeds if only is None or seed in only]

    def phases(self, arm: str) -> list[str]:
        """What was measured of a start: as trained, and after each way of training on."""
        return [phase for phase in PHASES if self.values(arm, f"{phase}_accuracy")]

    def majority(self) -> float:
        """Accuracy of the most frequent answer, mean over the seeds' test rows."""
        found = [float(row["majority"]) for row in self.table if row.get("majority") is not None]
        return float(np.mean(found)) if found else float("nan")

    def ids(self, *arms: str) -> list[str]:
        """The trials behind these starts."""
        return [row.id for arm in arms for row in self.rows(arm)]
