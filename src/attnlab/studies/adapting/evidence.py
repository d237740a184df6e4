"""The trials of a run by arm; arms share seeds and test rows, so differences are paired by both."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from attnlab.audit.checks.grid_edge import Choice
from attnlab.lab.arms import Arms, Count, Share
from attnlab.lab.claim import Claim, Verdict, judge
from attnlab.lab.findings import resting_on
from attnlab.lab.table import Row
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.measure.shares import share_difference, share_interval
from attnlab.measure.two_way_interval import two_way_interval
from attnlab.studies.adapting.settings import CELLS, RIGHT

SHOWN = 4  # labels that a claim names
SHARES = {  # all seeds have the same dev and test rows
    "accuracy": Share("tested", same=True),
    "dev_accuracy": Share("dev_rows", same=True),
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

    def all_rows(self) -> list[Row]:
        """Every trial, sorted by seed."""
        return sorted(self.table, key=lambda row: row.seed)

    def row_label(self, row: Row) -> str:
        """The label of the arm of a trial."""
        return self.label(row["arm"])

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
        """Dev accuracy over seeds and dev rows, by these hyperparameters."""
        values: dict[tuple[Any, ...], list[tuple[int, float]]] = {}
        for seed, cell in self.cells(arm):
            key = tuple(cell[name] for name in keys)
            values.setdefault(key, []).append((seed, float(cell["dev_accuracy"])))
        return {key: self._dev_share(arm, values[key]) for key in sorted(values)}

    def dev_at_rate(self, arm: str, rate: float) -> Estimate:
        """Dev accuracy at this learning rate."""
        return self._dev_share(arm, list(self._dev_values(arm, rate).items()))

    def dev_gap_at_rate(
        self, one: str, other: str, rate: float, score: str = "dev_accuracy"
    ) -> Estimate:
        """Dev accuracy of one − other at this learning rate, paired by seed.

        It is that of the best evaluation; with "last_dev_accuracy", that of the last.
        """
        a, b = (self._dev_values(arm, rate, score) for arm in (one, other))
        seeds = sorted(a.keys() & b.keys())
        ours = self._dev_counts(one, [(seed, a[seed]) for seed in seeds])
        theirs = self._dev_counts(other, [(seed, b[seed]) for seed in seeds])
        if min(len(ours), len(theirs)) < len(seeds) or not seeds:
            return mean_interval([a[seed] - b[seed] for seed in seeds])
        return share_difference(ours, theirs, same_items=True)

    def _dev_values(self, arm: str, rate: float, score: str = "dev_accuracy") -> dict[int, float]:
        """Seed -> dev accuracy at this learning rate."""
        return {s: float(cell[score]) for s, cell in self.cells(arm) if cell["rate"] == rate}

    def curves(self, arm: str, rate: float | None = None) -> dict[int, dict[str, list[float]]]:
        """Seed -> the curves of the chosen training, or of the one at this learning rate."""
        if rate is None:
            return {row.seed: dict(row.curves) for row in self.rows(arm) if row.curves}
        cells = [(seed, cell) for seed, cell in self.cells(arm) if cell["rate"] == rate]
        return {seed: cell["curves"] for seed, cell in cells if cell.get("curves")}

    def last(self, arm: str, rate: float | None, curve: str) -> Estimate:
        """Where a curve ends: the mean over seeds with its t interval."""
        ends = [curves[curve][-1] for curves in self.curves(arm, rate).values() if curve in curves]
        e = mean_interval(ends)
        return e.clip() if curve.endswith("accuracy") else e

    def lowest_loss(self, arm: str, rate: float | None) -> str:
        """The epoch in which the dev loss was lowest, for every seed."""
        steps = self.mean(arm, "epoch_steps")
        found = [
            curves["dev_step"][curves["dev_loss"].index(min(curves["dev_loss"]))] / steps
            for curves in self.curves(arm, rate).values()
        ]
        return ", ".join(f"{epoch:.2g}" for epoch in found)

    def last_gap(self, one: str, other: str, rate: float, curve: str) -> Estimate:
        """The end of a curve, one − other, at this learning rate, paired by seed."""
        a, b = (self.curves(arm, rate) for arm in (one, other))
        return mean_interval([a[s][curve][-1] - b[s][curve][-1] for s in sorted(a.keys() & b)])

    def _dev_counts(self, arm: str, values: Sequence[tuple[int, float]]) -> list[Count]:
        """Right answers and dev rows, for every (seed, accuracy) whose dev rows are known."""
        rows = self.values(arm, "dev_rows")
        return [(value * rows[seed], rows[seed]) for seed, value in values if rows.get(seed)]

    def _dev_share(self, arm: str, values: Sequence[tuple[int, float]]) -> Estimate:
        counts = self._dev_counts(arm, values)
        if len(counts) < len(values):
            return mean_interval([value for _, value in values]).clip()
        return share_interval(counts, same_items=True)

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


def difference_of_estimates(a: Estimate, b: Estimate) -> Estimate:
    """a − b of two estimates whose errors are independent: half-widths in quadrature."""
    return Estimate(
        a.value - b.value,
        a.value - b.value - math.hypot(a.value - a.low, b.high - b.value),
        a.value - b.value + math.hypot(a.high - a.value, b.value - b.low),
        min(a.n, b.n),
        f"{a.method}; {b.method}; subtracted",
        recompute=lambda level: difference_of_estimates(a.at(level), b.at(level)),
    )


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
    verdict: Verdict = "holds"
    why = f"none of {len(rows)} models has collapsed"
    if bad:
        verdict = "fails"
        why = f"{len(bad)} of {len(rows)} models predict no better than a constant: {names}{more}"
    elif not rows:
        verdict, why = "undecided", "no estimate: no model was trained"
    return Claim(
        "no-collapse",
        "No model chosen on dev has collapsed to constant predictions",
        verdict,
        Estimate(float(len(bad)), n=len(rows), method="models counted", exact=True),
        why,
        "models collapsed",
        trials=tuple(row.id for row in rows),
    )
