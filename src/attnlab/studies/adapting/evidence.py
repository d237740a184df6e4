"""The trials of a run by arm; arms share seeds and test rows, so differences are paired by both."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from attnlab.audit.checks.grid_edge import Choice
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.finding import Finding
from attnlab.lab.arms import Arms, Share
from attnlab.lab.claim import Claim, judge
from attnlab.lab.findings import resting_on
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, difference_limits, mean_interval, two_way_interval

CELLS = "cells.json"  # document: all cells of a search
RIGHT = "test_right"  # array: 1 for each test row that is classified correctly
SHOWN = 4  # labels that a claim names
SHARES = {  # all seeds have the same dev and test rows
    "accuracy": Share("tested", same=True),
    "dev_accuracy": Share("dev_rows", same=True),
    "last_dev_accuracy": Share("dev_rows", same=True),
    "train_accuracy": Share(),
    "whole_accuracy": Share("whole_rows", same=True),
    "whole_majority": Share("whole_rows", same=True),
    "whole_top_share": Share("whole_rows", same=True),
}
Cell = dict[str, Any]  # one training of a search, as search.py describes it


class AdaptArms(Arms):
    """Arms with test predictions row by row and all cells of their searches."""

    def task(self, name: str) -> "AdaptArms":
        """The trials of one task."""
        return replace(self, table=self.table.where(task=name))

    def accuracy(self, arm: str) -> Estimate:
        """Test accuracy; the interval covers other seeds and other test rows."""
        correct = self._correct(arm)
        e = _over_seeds_and_rows(list(correct.values())).clip()
        return self.estimate(arm, "accuracy") if e.half_width == 0 else e

    def accuracy_gap(self, one: str, other: str) -> Estimate:
        """Test accuracy of one − other, paired by seed and by test row."""
        a, b = self._correct(one), self._correct(other)
        e = _over_seeds_and_rows([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())])
        both = (one, "accuracy"), (other, "accuracy")
        return self.gap_estimate(*both) if e.half_width == 0 else e

    def accuracy_difference(
        self, name: str, statement: str, one: str, other: str, **rest: Any
    ) -> Claim:
        """The claim that `accuracy_gap` is positive; `rest` as for `judge`."""
        rest = {"quantity": f"test accuracy, {one} − {other}", "comparison": True, **rest}
        gap, trials = self.accuracy_gap(one, other), self.ids(one, other)
        return judge(name, statement, gap, above=0.0, trials=trials, **rest)

    def beats_majority(self, name: str, statement: str, arm: str, **rest: Any) -> Claim:
        """The claim that test accuracy is above the share of the most frequent class."""
        majority = max(self.values(arm, "majority").values(), default=math.nan)
        rest = {"trials": self.ids(arm), "comparison": True, **rest}
        return judge(name, statement, self.accuracy(arm), above=majority, **rest)

    def _correct(self, arm: str) -> dict[int, np.ndarray]:
        """Seed -> 1 for each test row that is classified correctly."""
        rows = [row for row in self.rows(arm) if row.get("accuracy") is not None]
        return {row.seed: np.asarray(row.arrays[RIGHT], dtype=float) for row in rows}

    @cached_property
    def cells(self) -> "AdaptArms":
        """All trainings of the searches that ended, with their own scores and curves."""
        return replace(self, table=Table([cell for row in self.table for cell in _ended(row)]))

    def at_rate(self, rate: float) -> "AdaptArms":
        """The trainings at this learning rate in place of the chosen ones."""
        return replace(self, table=self.cells.table.where(rate=rate))

    def dev_by_cell(self, arm: str, *keys: str) -> dict[tuple[Any, ...], Estimate]:
        """Dev accuracy over seeds and dev rows, by these hyperparameters."""
        groups = Table(self.cells.rows(arm)).groups(*keys)
        return {
            key: replace(self, table=cells).estimate(arm, "dev_accuracy")
            for key, cells in groups.items()
        }

    def curves(self, arm: str) -> dict[int, Mapping[str, list[float]]]:
        """Seed -> the curves of the training."""
        return {row.seed: curves for row in self.rows(arm) if (curves := row.curves)}

    def last(self, arm: str, curve: str) -> Estimate:
        """Where a curve ends: the mean over seeds with its t interval."""
        e = mean_interval(
            [lines[curve][-1] for lines in self.curves(arm).values() if curve in lines]
        )
        return e.clip() if curve.endswith("accuracy") else e

    def last_gaps(self, one: str, other: str, curve: str) -> list[float]:
        """Where a curve ends, one − other, for every seed that has both."""
        a, b = self.curves(one), self.curves(other)
        return [a[seed][curve][-1] - b[seed][curve][-1] for seed in sorted(a.keys() & b)]

    def lowest_loss(self, arm: str) -> str:
        """The epoch in which the dev loss was lowest, for every seed."""
        steps = self.mean(arm, "epoch_steps")
        best = [
            lines["dev_step"][lines["dev_loss"].index(min(lines["dev_loss"]))]
            for lines in self.curves(arm).values()
        ]
        return ", ".join(f"{step / steps:.2g}" for step in best)

    def collapsed(self, arm: str) -> int:
        """Number of models that the audit `collapse` fails."""
        return sum(map(has_collapsed, self.rows(arm)))

    def choices(
        self, arm: str, setting: str, claims: Sequence[Claim], *, label: str = "", key: str = "rate"
    ) -> list[Choice]:
        """For the audit `grid-edge`: what dev chose for a hyperparameter, and from which values.

        A claim counts as resting on a choice if it rests on its trial; that no chosen model has
        collapsed is true of those chosen, whatever else could have been.
        """
        claims = [claim for claim in claims if claim.name != "no-collapse"]
        return [
            Choice(
                label or self.label(arm),
                setting,
                float(row["rate" if key == "rate" else f"chosen_{key}"]),
                tuple(sorted({float(cell[key]) for cell in _all_cells(row)})),
                resting_on(claims, [row.id]),
            )
            for row in self.rows(arm)
            if row.get("accuracy") is not None
        ]


def _all_cells(row: Row) -> list[Cell]:
    return json.loads(row.documents.get(CELLS, "[]"))


def _ended(row: Row) -> Iterator[Row]:
    """The trainings of a search that did not diverge, each as a trial."""
    for cell in _all_cells(row):
        if cell["dev_accuracy"] is not None:
            scores = {**cell, "dev_rows": row.get("dev_rows")}
            yield replace(row, metrics=scores, load_curves=partial(cell.get, "curves", {}))


def _over_seeds_and_rows(correct: Sequence[np.ndarray]) -> Estimate:
    values = np.array(correct)
    if not len(values):
        return Estimate(math.nan, method="no seeds")
    if len(values) < 2:
        return Estimate(float(values.mean()), n=len(values), method="one seed: no interval")
    return two_way_interval(values)


def difference_of_estimates(a: Estimate, b: Estimate) -> Estimate:
    """a − b of two estimates whose errors are independent: half-widths in quadrature."""
    return Estimate(
        *difference_limits(a, b),
        min(a.n, b.n),
        f"{a.method}; {b.method}; subtracted",
        recompute=lambda level: difference_of_estimates(a.at(level), b.at(level)),
    )


def add_uncertainty(seeds: Estimate, rows: Estimate) -> Estimate:
    """The interval over seeds, widened by that over rows: both half-widths in quadrature."""
    return Estimate(
        seeds.value,
        seeds.value - math.hypot(seeds.value - seeds.low, rows.value - rows.low),
        seeds.value + math.hypot(seeds.high - seeds.value, rows.high - rows.value),
        seeds.n,
        f"{seeds.method}; {rows.method}; added",
        recompute=lambda level: add_uncertainty(seeds.at(level), rows.at(level)),
    )


def has_collapsed(row: Row) -> bool:
    """Whether the audit `collapse` fails the model of this trial."""
    return row.failure("collapse") is not None


def no_collapse(models: Mapping[str, Sequence[Row]]) -> Claim:
    """The claim that none of the chosen models, given by label, has collapsed."""
    rows = sorted((row for part in models.values() for row in part), key=lambda r: (r.seed, r.id))
    times = {name: sum(map(has_collapsed, part)) for name, part in sorted(models.items())}
    named = [f"{name} ({n} of {len(models[name])})" for name, n in times.items() if n]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    bad, names = sum(times.values()), ", ".join(named[:SHOWN])
    claim = judge(
        "no-collapse",
        "No model chosen on dev has collapsed to constant predictions",
        Estimate(float(bad), n=len(rows), method="models counted", exact=bool(rows)),
        below=0.5,
        quantity="models collapsed",
        trials=[row.id for row in rows],
    )
    why = {
        "holds": f"none of {len(rows)} models has collapsed",
        "fails": f"{bad} of {len(rows)} models predict no better than a constant: {names}{more}",
        "undecided": "no estimate: no model was trained",
    }
    return replace(claim, why=why[claim.verdict])


def enough_test_rows(models: Mapping[str, Sequence[Row]], effect: float) -> Finding:
    """`small-sample`: are there enough test rows for the difference that is claimed?

    All seeds are tested on the same rows, so the rows count once.
    """
    counts = {
        name: (round(sum(int(r["right"]) for r in rows) / len(rows)), int(rows[0]["tested"]))
        for name, rows in models.items()
        if rows
    }
    return small_sample(counts, effect)
