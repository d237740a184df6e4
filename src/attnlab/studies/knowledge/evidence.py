"""Arms of a run, seed by seed: the same worlds for every arm."""

import math
from dataclasses import dataclass

import numpy as np

from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval, paired_difference, wilson
from attnlab.studies.knowledge.arms import LABELS


@dataclass(frozen=True)
class Arms:
    """The trials that ended."""

    table: Table

    def names(self) -> list[str]:
        """Arms with a trial, in their fixed order."""
        return [arm for arm in LABELS if self.rows(arm)]

    def rows(self, arm: str) -> list[Row]:
        """One row a seed, sorted by seed."""
        return sorted(self.table.where(arm=arm), key=lambda row: row.seed)

    def values(self, arm: str, metric: str) -> dict[int, float]:
        """Seed -> metric; a seed without it is left out."""
        found = {row.seed: row.get(metric) for row in self.rows(arm)}
        return {seed: float(v) for seed, v in found.items() if v is not None}

    def share(self, arm: str, kind: str) -> Estimate:
        """Right answers of all seeds together, with Wilson's interval over the people asked."""
        rows = [r for r in self.rows(arm) if r.get(f"{kind}_n")]
        counts = [(int(r[f"{kind}_right"]), int(r[f"{kind}_n"])) for r in rows]
        return wilson(sum(k for k, _ in counts), sum(n for _, n in counts))

    def over_seeds(self, arm: str, metric: str) -> Estimate:
        """Mean over seeds with its t interval."""
        return mean_interval(list(self.values(arm, metric).values()))

    def gaps(self, one: str, other: str, metric: str = "read_accuracy") -> list[float]:
        """one − other, a seed; `arm:metric` names another metric of an arm."""
        a, b = (self._named(name, metric) for name in (one, other))
        return [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]

    def difference(self, one: str, other: str, metric: str = "read_accuracy") -> Estimate:
        """Mean of the gaps with the paired t interval."""
        gaps = self.gaps(one, other, metric)
        return paired_difference(gaps, np.zeros(len(gaps)))

    def _named(self, name: str, metric: str) -> dict[int, float]:
        arm, _, own = name.partition(":")
        if own == "recalled":
            rows = [row for row in self.rows(arm) if row.get("recalled_n")]
            return {row.seed: row["recalled_right"] / row["recalled_n"] for row in rows}
        return self.values(arm, own or metric)

    def mean(self, arm: str, metric: str) -> float:
        """Mean over seeds; NaN where there is none."""
        found = list(self._named(f"{arm}:{metric}", metric).values())
        return float(np.mean(found)) if found else math.nan

    def pooled(self, arm: str, name: str) -> np.ndarray:
        """An array of every seed, one after the other."""
        found = [np.asarray(r.arrays[name]) for r in self.rows(arm) if name in r.arrays]
        return np.concatenate(found) if found else np.empty(0)

    def ids(self, *arms: str) -> list[str]:
        """The trials behind these arms."""
        return [row.id for arm in arms for row in self.rows(arm)]
