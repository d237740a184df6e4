"""The trials of a run by arm; arms share seeds and test rows, so differences are paired by both."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from attnlab.audit.checks.grid_edge import Choice
from attnlab.lab.arms import Arms
from attnlab.lab.claim import Claim, judge
from attnlab.lab.findings import resting_on
from attnlab.lab.table import Row
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.measure.two_way_interval import two_way_interval
from attnlab.studies.adapting.settings import CELLS, RIGHT

SHOWN = 4  # labels that a claim names
Cell = dict[str, Any]  # one training of a search, as search.py describes it


class AdaptArms(Arms):
    """Arms with test predictions row by row and all cells of their searches."""

    def task(self, name: str) -> "AdaptArms":
        """The trials of one task."""
        return AdaptArms(self.table.where(task=name), self.labels)

    def all_rows(self) -> list[Row]:
        """Every trial, sorted by seed."""
        return sorted(self.table, key=lambda row: row.seed)

    def row_label(self, row: Row) -> str:
        """The label of the arm of a trial."""
        return self.label(row["arm"])

    def share(self, arm: str, metric: str) -> Estimate:
        """Mean over seeds of a share, whose interval ends at 0 and 1."""
        e = self.estimate(arm, metric)
        return e.clip() if e.has_interval else e

    def accuracy(self, arm: str) -> Estimate:
        """Test accuracy; the interval covers other seeds and other test rows."""
        return _over_seeds_and_rows(list(self._correct(arm).values()))

    def accuracy_gap(self, one: str, other: str) -> Estimate:
        """Test accuracy of one − other, paired by seed and by test row."""
        a, b = self._correct(one), self._correct(other)
        return _over_seeds_and_rows([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())])

    def accuracy_difference(
        self, name: str, statement: str, one: str, other: str, **rest: Any
    ) -> Claim:
        """The claim that `accuracy_gap` lies in a range; `rest` as for `judge`."""
        gap, trials = self.accuracy_gap(one, other), self.ids(one, other)
        quantity = f"test accuracy, {one} − {other}"
        return judge(
            name, statement, gap, quantity=quantity, trials=trials, comparison=True, **rest
        )

    def _correct(self, arm: str) -> dict[int, np.ndarray]:
        """Seed -> 1 for each test row that is classified correctly."""
        rows = [row for row in self.rows(arm) if row.get("accuracy") is not None]
        return {row.seed: np.asarray(row.arrays[RIGHT], dtype=float) for row in rows}

    @cached_property
    def _cells(self) -> dict[str, list[Cell]]:
        return {
            row.id: json.loads(text)
            for row in self.table
            if (text := row.documents.get(CELLS)) is not None
        }

    def cells(self, arm: str) -> list[tuple[int, Cell]]:
        """Seed and cell of every training that ended."""
        return [
            (row.seed, cell)
            for row in self.rows(arm)
            for cell in self._cells.get(row.id, [])
            if cell["dev_accuracy"] is not None
        ]

    def dev_by_cell(self, arm: str, *keys: str) -> dict[tuple[Any, ...], Estimate]:
        """Dev accuracy over seeds, by these hyperparameters."""
        values: dict[tuple[Any, ...], list[float]] = {}
        for _, cell in self.cells(arm):
            key = tuple(cell[name] for name in keys)
            values.setdefault(key, []).append(float(cell["dev_accuracy"]))
        return {key: mean_interval(values[key]) for key in sorted(values)}

    def dev_at_rate(self, arm: str, rate: float) -> dict[int, float]:
        """Seed -> dev accuracy at this learning rate."""
        return {
            seed: float(cell["dev_accuracy"])
            for seed, cell in self.cells(arm)
            if cell["rate"] == rate
        }

    def chosen_rates(self, arm: str) -> list[float]:
        """The learning rate that dev chose, for every seed."""
        return [row["rate"] for row in self.rows(arm)]

    def trainings(self, arm: str) -> str:
        """How many cells each seed's search trained."""
        return ", ".join(str(len(self._cells.get(row.id, []))) for row in self.rows(arm))

    def choices(
        self, arm: str, setting: str, name: str, claims: Sequence[Claim], label: str = ""
    ) -> list[Choice]:
        """For the audit `grid-edge`: what dev chose for a hyperparameter, and from which values.

        A claim counts as resting on a choice if it rests on its trial; that no chosen model has
        collapsed is true of those chosen, whatever else could have been.
        """
        claims = [claim for claim in claims if claim.name != "no-collapse"]
        chosen = {"rate": "rate", "batch": "chosen_batch"}[name]
        return [
            Choice(
                label or self.label(arm),
                setting,
                float(row[chosen]),
                tuple(sorted({float(cell[name]) for cell in self._cells.get(row.id, [])})),
                resting_on(claims, [row.id]),
            )
            for row in self.rows(arm)
            if row.get("accuracy") is not None
        ]

    def collapsed(self, arm: str) -> int:
        """Number of models that the audit `collapse` fails."""
        return sum(row.failure("collapse") is not None for row in self.rows(arm))


def _over_seeds_and_rows(correct: Sequence[np.ndarray]) -> Estimate:
    values = np.array(correct)
    if not len(values):
        return Estimate(math.nan, method="no seeds")
    if len(values) < 2:
        return Estimate(float(values.mean()), n=len(values), method="one seed: no interval")
    return two_way_interval(values)


def add_uncertainty(seeds: Estimate, rows: Estimate) -> Estimate:
    """The interval over seeds, widened by that over rows: both half-widths in quadrature."""
    low = seeds.value - math.hypot(seeds.value - seeds.low, rows.value - rows.low)
    high = seeds.value + math.hypot(seeds.high - seeds.value, rows.high - rows.value)
    method = f"{seeds.method}; {rows.method}; added"
    return Estimate(
        seeds.value,
        low,
        high,
        seeds.n,
        method,
        recompute=lambda level: add_uncertainty(seeds.at(level), rows.at(level)),
    )


def no_collapse(rows: Sequence[Row], label: Callable[[Row], str]) -> Claim:
    """The claim that none of the chosen models has collapsed; `label` says what a trial trained."""
    bad = [row for row in rows if row.failure("collapse")]
    times, total = Counter(map(label, bad)), Counter(map(label, rows))
    names = ", ".join(f"{name} ({n} of {total[name]})" for name, n in sorted(times.items())[:SHOWN])
    more = f" and {len(times) - SHOWN} more" if len(times) > SHOWN else ""
    why = f"{len(bad)} of {len(rows)} models predict no better than a constant: {names}{more}"
    return Claim(
        "no-collapse",
        "No model chosen on dev has collapsed to constant predictions",
        "fails" if bad else "holds",
        Estimate(float(len(bad)), n=len(rows), method="models counted", exact=True),
        why if bad else f"none of {len(rows)} models has collapsed",
        "models collapsed",
        trials=tuple(row.id for row in rows),
    )
