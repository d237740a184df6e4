"""The table read: slopes by temperature, arms at the learning rate that suits each best."""

import math
from collections.abc import Sequence

import numpy as np

from attnlab.audit.checks.grid_edge import Choice
from attnlab.audit.finding import Finding
from attnlab.lab.arms import Arms, Share
from attnlab.lab.claim import Claim
from attnlab.lab.findings import resting_on
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate
from attnlab.measure.ratios import geometric_mean

SOFT, COLD, ANNEALED, THROUGH = "softmax", "softmax, cold", "softmax, annealed", "straight-through"
HARD, HARD_FIXED, OFF = "argmax", "argmax, fixed embeddings", "attention off"

ARMS = (SOFT, ANNEALED, COLD, THROUGH, HARD, HARD_FIXED, OFF)
SHARES: dict[str, Share] = dict.fromkeys(
    ("accuracy", "hard_accuracy", "dev_accuracy", "found", "found_start"), Share("scored")
)
BASELINES = {
    "chance": "chance",
    "majority": "most frequent answer",
    "one_item": "one item, whatever is asked",
    "most_frequent": "the row's most frequent value",
}


class Evidence(Arms):
    """Arms are read at their best learning rate; `slopes` are sets of random instances."""

    @property
    def slopes(self) -> Table:
        """One row per set of random instances."""
        return self.table.where(kind="slopes")

    @property
    def temperatures(self) -> list[float]:
        """The grid, as measured; empty where nothing was."""
        rows = self.slopes.rows
        return list(rows[0].curves["temperature"]) if rows else []

    def medians(self, name: str) -> np.ndarray:
        """sets × temperatures of a curve."""
        return np.array([row.curves[name] for row in self.slopes])

    def slope_curve(self, name: str) -> list[Estimate]:
        """Geometric mean over sets at each temperature, with its t interval in the logarithm."""
        return [geometric_mean(column) for column in self.medians(name).T]

    def marked_temperatures(self) -> tuple[int, int, int]:
        """Indices in the grid: hottest, coldest, largest median slope; 0 where nothing was."""
        if not (grid := self.temperatures):
            return 0, 0, 0
        medians = [e.value for e in self.slope_curve("formula_median")]
        return grid.index(max(grid)), grid.index(min(grid)), int(np.argmax(medians))

    def by_rate(self, arm: str) -> dict[float, Table]:
        """Learning rate -> the models trained at it."""
        models = self.table.where(kind="model", arm=arm)
        return {rate: rows for (rate,), rows in models.groups("rate").items()}

    def best(self, arm: str) -> Table:
        """The models at the rate with the highest mean accuracy on dev rows, the lowest loss."""
        return max(self.by_rate(arm).values(), key=_rank, default=Table([]))

    def rows(self, arm: str) -> list[Row]:
        """The models of an arm at its best rate, sorted by seed."""
        return sorted(self.best(arm), key=lambda row: row.seed)

    def rate_choices(self, claims: Sequence[Claim]) -> list[Choice]:
        """For the audit `grid-edge`: every arm's rate, chosen by the mean over its seeds."""
        judged = [claim for claim in claims if claim.kind == "finding"]
        return [
            Choice(
                arm,
                "rates",
                float(rows[0]["rate"]),
                tuple(self.by_rate(arm)),
                resting_on(judged, [row.id for row in rows]),
            )
            for arm in self.names()
            if (rows := self.rows(arm))
        ]

    def collapse(self) -> Finding:
        """`collapse` of the models that are read: at other rates it is no news."""
        read = [row for arm in self.names() for row in self.rows(arm)]
        if not read:
            return Finding.not_applicable("collapse", "no model was trained", threshold=0)
        arms = [str(row["arm"]) for row in read if row.get("collapsed")]
        of = f"of {len(read)} models, at the rates their arms are read at,"
        if not arms:
            return Finding("collapse", "pass", 0, 0, f"{of} none gives nearly always one answer")
        why = f"{of} {len(arms)} give nearly always one answer: {', '.join(dict.fromkeys(arms))}"
        return Finding("collapse", "fail", len(arms), 0, why)

    def best_rules(self) -> dict[int, float]:
        """Seed -> accuracy of the best rule that needs no model, on the seed's test rows."""
        rows = self.table.where(kind="baselines")
        return {row.seed: max(float(row[name]) for name in BASELINES) for row in rows}

    def baseline(self, name: str) -> float:
        """Accuracy of a rule that needs no model, mean over the seeds' test rows."""
        rows = self.table.where(kind="baselines")
        return float(rows.column(name).mean()) if len(rows) else math.nan


def _rank(models: Table) -> tuple[float, float]:
    """Mean dev accuracy, then minus the mean dev loss; last where a training diverged."""
    scores = [(row.get("dev_accuracy"), row.get("dev_nll")) for row in models]
    if any(None in pair for pair in scores):
        return (-1.0, -math.inf)
    accuracy, nll = np.array(scores, dtype=float).mean(axis=0)
    return (float(accuracy), -float(nll))
