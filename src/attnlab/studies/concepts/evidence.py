"""The trials of a run by part, seed by seed."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval, wilson


@dataclass(frozen=True)
class Found:
    """The trials that ended."""

    table: Table

    def rows(self, part: str, **values: object) -> list[Row]:
        """One row a seed, sorted by seed."""
        return sorted(self.table.where(part=part, **values), key=lambda row: row.seed)

    def ids(self, part: str, **values: object) -> list[str]:
        """The trials behind a part."""
        return [row.id for row in self.rows(part, **values)]

    def values(self, part: str, metric: str, **values: object) -> list[float]:
        """A metric, a seed; what does not exist is left out."""
        found = [row.get(metric) for row in self.rows(part, **values)]
        return [float(v) for v in found if v is not None]

    def mean(self, part: str, metric: str, **values: object) -> float:
        """Over seeds; NaN where there is none."""
        found = self.values(part, metric, **values)
        return float(np.mean(found)) if found else math.nan

    def estimate(self, part: str, metric: str, **values: object) -> Estimate:
        """Mean over seeds with its t interval."""
        return mean_interval(self.values(part, metric, **values))

    def share(self, part: str, right: str, of: str) -> Estimate:
        """Wilson's interval over all items, seeds together."""
        rows = self.rows(part)
        return wilson(sum(int(r[right]) for r in rows), sum(int(r[of]) for r in rows))

    def gaps(self, part: str, one: str, other: str, **values: object) -> list[float]:
        """one − other within each seed."""
        rows = [r for r in self.rows(part, **values) if None not in (r.get(one), r.get(other))]
        return [float(r[one]) - float(r[other]) for r in rows]

    def exact(self, part: str, metrics: Sequence[str], wanted: float) -> Estimate:
        """The value farthest from what is wanted, over seeds: no sampling is in it."""
        found = [v for metric in metrics for v in self.values(part, metric)]
        if not found:
            return Estimate(math.nan, method="nothing was measured")
        worst = max(found, key=lambda v: abs(v - wanted))
        return Estimate(worst, n=len(found), method="worst of all cases", exact=True)

    def document(self, part: str, name: str) -> Any:
        """A document of the first seed; None where there is none."""
        for row in self.rows(part):
            if name in row.documents:
                return json.loads(row.documents[name])
        return None
