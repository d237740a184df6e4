"""The trials of a run by what they are; seeds share rows and order, so differences are paired."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.measure.two_way_interval import two_way_interval
from attnlab.studies.adapting.settings import CELLS, RIGHT

Where = Mapping[str, Any]
Cell = dict[str, Any]  # a training of a search, as search.py describes it


@dataclass(frozen=True)
class Runs:
    """The trials that ended well."""

    table: Table

    def rows(self, **where: Any) -> list[Row]:
        """One row a seed, sorted by seed."""
        return sorted(self.table.where(**where), key=lambda row: row.seed)

    def values(self, metric: str, **where: Any) -> dict[int, float]:
        """Seed -> metric; a seed without it is left out."""
        found = {row.seed: row.get(metric) for row in self.rows(**where)}
        return {seed: float(v) for seed, v in found.items() if v is not None}

    def over_seeds(self, metric: str, **where: Any) -> Estimate:
        """Mean over seeds with its t interval."""
        return mean_interval(list(self.values(metric, **where).values()))

    def share(self, metric: str, **where: Any) -> Estimate:
        """The same of a share, where no interval goes beyond 0 and 1."""
        e = self.over_seeds(metric, **where)
        return replace(e, low=max(e.low, 0.0), high=min(e.high, 1.0)) if e.has_interval else e

    def gaps(self, metric: str, one: Where, other: Where) -> list[float]:
        """metric of one − metric of other, a seed."""
        a, b = self.values(metric, **one), self.values(metric, **other)
        return [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]

    def accuracy(self, **where: Any) -> Estimate:
        """Test accuracy; its interval covers other seeds and other test rows."""
        found = self.rights(**where)
        return over_both(np.array(list(found.values()))) if found else Estimate(math.nan)

    def test_gap(self, one: Where, other: Where) -> Estimate:
        """Test accuracy of one − other, paired by seed and by row."""
        a, b = self.rights(**one), self.rights(**other)
        both = [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]
        return over_both(np.array(both)) if both else Estimate(math.nan, method="no pair of seeds")

    def rights(self, **where: Any) -> dict[int, np.ndarray]:
        """Seed -> 1 for each test row that is right."""
        rows = [row for row in self.rows(**where) if row.get("accuracy") is not None]
        return {row.seed: np.asarray(row.arrays[RIGHT], dtype=float) for row in rows}

    def ids(self, **where: Any) -> list[str]:
        """The trials behind these rows."""
        return [row.id for row in self.rows(**where)]

    def mean(self, metric: str, **where: Any) -> float:
        """Over seeds; NaN where there is none."""
        return self.over_seeds(metric, **where).value

    @cached_property
    def _cells(self) -> dict[str, list[Cell]]:
        return {
            row.id: json.loads(text)
            for row in self.table
            if (text := row.documents.get(CELLS)) is not None
        }

    def cells(self, row: Row) -> list[Cell]:
        """All trainings of a search."""
        return self._cells.get(row.id, [])

    def by_cell(self, *keys: str, **where: Any) -> dict[tuple[Any, ...], list[float]]:
        """Dev accuracy of every seed, by what the cells are told apart by."""
        found: dict[tuple[Any, ...], list[float]] = {}
        for row in self.rows(**where):
            for cell in self.cells(row):
                if cell["dev_accuracy"] is not None:
                    key = tuple(cell[name] for name in keys)
                    found.setdefault(key, []).append(float(cell["dev_accuracy"]))
        return {key: found[key] for key in sorted(found)}

    def at_rate(self, rate: float, **where: Any) -> dict[int, float]:
        """Seed -> dev accuracy of the cell at this rate."""
        return {
            row.seed: float(cell["dev_accuracy"])
            for row in self.rows(**where)
            for cell in self.cells(row)
            if cell["rate"] == rate and cell["dev_accuracy"] is not None
        }


def over_both(values: np.ndarray) -> Estimate:
    """Mean of (seeds, rows) with the interval of measure/two_way_interval.py; of one seed, none."""
    if len(values) < 2:
        return Estimate(float(values.mean()), n=len(values), method="one seed: no interval")
    return two_way_interval(values)


def widened(seeds: Estimate, rows: Estimate) -> Estimate:
    """An interval over seeds made longer by what other rows would change, in quadrature."""
    low = seeds.value - math.hypot(seeds.value - seeds.low, rows.value - rows.low)
    high = seeds.value + math.hypot(seeds.high - seeds.value, rows.high - rows.value)
    return Estimate(seeds.value, low, high, seeds.n, f"{seeds.method}; {rows.method}; added")


def at_the_edge(chosen: Sequence[float], tried: Sequence[float]) -> str:
    """A warning where the best value is the largest or smallest tried; '' where it is not."""
    ends = {max(tried): "largest", min(tried): "smallest"} if len(tried) > 1 else {}
    hit = {ends[value] for value in chosen if value in ends}
    if not hit:
        return ""
    return f"The {' or '.join(sorted(hit))} rate tried was chosen: a wider grid may find a better."


def percent(e: Estimate) -> str:
    """85.1 % [83.0, 87.2]."""
    if not math.isfinite(e.value):
        return "not measured"
    if not e.has_interval:
        return f"{100 * e.value:.1f} %"
    low, high = max(e.low, 0.0), min(e.high, 1.0)  # a t interval over few seeds knows no ends
    return f"{100 * e.value:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
