"""The table condensed."""

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.attention_design.gaussian import exact_share

GAUSSIAN, SPHERE = "Gaussian", "sphere"
ORDER = ("select", "average", "match", "replace", "query")  # of the exercise's parts


@dataclass(frozen=True)
class Found:
    """What the trials say, by kind."""

    table: Table

    def rows(self, kind: str, **more: object) -> Table:
        """The trials of a kind."""
        return self.table.where(kind=kind, **more)

    def share(self, law: str, n: int, h: int) -> Estimate:
        """Share of selectable keys over independent sets."""
        return mean_interval(self.rows("selectable", law=law, n=n, h=h).column("share"))

    def over_theory(self) -> list[float]:
        """For each seed, the mean over sizes and dimensions of measured share / exact one."""
        ratios: dict[int, list[float]] = {}
        for r in self.rows("selectable", law=GAUSSIAN):
            ratios.setdefault(r.seed, []).append(r["share"] / exact_share(r["n"], r["h"]))
        return [float(np.mean(ratios[seed])) for seed in sorted(ratios)]

    def exercise(self) -> dict[str, dict[str, Any]]:
        """Every part of the exercise, as the command's JSON."""
        rows = self.rows("exercise").rows
        if not rows:
            return {}
        read = {
            name.removesuffix(".json"): json.loads(text) for name, text in rows[0].documents.items()
        }
        return dict(sorted(read.items(), key=lambda item: (ORDER.index(item[0].split()[0]), item)))

    def worst(self, metric: str) -> float:
        """The largest value of a metric over all trials that have it."""
        values = [float(v) for r in self.table if (v := r.get(metric)) is not None]
        return max(values, default=math.nan)

    def curves(self, name: str) -> np.ndarray:
        """One row a seed."""
        return np.array([r.curves[name] for r in self.rows("norms")])


def first(table: Table) -> Row | None:
    """The only row of a kind that has one."""
    return table.rows[0] if table.rows else None
