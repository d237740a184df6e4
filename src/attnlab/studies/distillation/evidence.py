"""Arms compared item by item: the same test articles for every arm, the same order for a seed.

A training may come out otherwise with another seed, and a mean with other test articles; an
interval that is to cover both adds the two variances:

    s² = s²(means of seeds) / seeds + s²(means of items) / items        t by Welch–Satterthwaite

(what only one item of one seed has is in both terms: the interval is rather too long than too
short). Where nothing was trained there are no seeds, and the items alone are drawn again.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from attnlab.core.seeds import Seed
from attnlab.lab.claim import MIN_SEEDS
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import (
    LEVEL,
    Estimate,
    bootstrap_mean,
    mean_interval,
    t_quantile,
)
from attnlab.measure.rouge import MIN_BOOTSTRAP_ITEMS
from attnlab.studies.distillation.settings import ARMS, TRAINED

LABELS = {
    "teacher": "teacher",
    "untuned": "student, untuned",
    "text": "distilled on texts",
    "logits": "distilled on logits",
    "human": "tuned on human texts",
    "lead": "lead, no model",
}
KINDS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "rougeLsum": "ROUGE-Lsum"}


@dataclass(frozen=True)
class Arms:
    """The arms of a run that ended, in their fixed order."""

    table: Table

    def names(self) -> list[str]:
        """Those that have a trial."""
        return [arm for arm in ARMS if len(self.rows(arm))]

    def rows(self, arm: str) -> list[Row]:
        """One row a seed, sorted by seed."""
        return sorted(self.table.where(arm=arm), key=lambda row: row.seed)

    def first(self, arm: str) -> Row | None:
        """The trial of the lowest seed."""
        return next(iter(self.rows(arm)), None)

    def items(self, arm: str, column: str) -> dict[int, np.ndarray]:
        """Seed -> one number an item."""
        return {row.seed: np.asarray(row.arrays[column]) for row in self.rows(arm)}

    def seeded(self, arm: str) -> bool:
        """Whether the arm comes out otherwise with another seed: it was trained, or drawn."""
        row = self.first(arm)
        drawn = row is not None and arm == "untuned" and row.get("init") == "random"
        return arm in TRAINED or drawn

    def estimate(self, arm: str, column: str) -> Estimate:
        """The arm's mean, over seeds and items."""
        found = self.items(arm, column)
        e = mean_of(np.array(list(found.values())), self.seeded(arm), f"{arm} {column}")
        return replace(e, low=max(e.low, 0.0), high=min(e.high, 1.0)) if e.has_interval else e

    def gaps(self, one: str, other: str, column: str) -> np.ndarray:
        """(seeds, items): one − other, paired by seed where both have seeds, and by item."""
        a, b = self.items(one, column), self.items(other, column)
        if not a or not b:
            return np.empty((0, 0))
        if not self.seeded(one):
            a = dict.fromkeys(b, next(iter(a.values())))
        if not self.seeded(other):
            b = dict.fromkeys(a, next(iter(b.values())))
        return np.array([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())])

    def difference(self, one: str, other: str, column: str, level: float = LEVEL) -> Estimate:
        """Mean of one − other with its interval."""
        seeded = self.seeded(one) or self.seeded(other)
        e = mean_of(self.gaps(one, other, column), seeded, f"{one} {other} {column}", level)
        return replace(e, method=f"paired {e.method}") if e.n else e

    def runs(self, one: str, other: str, column: str) -> list[float]:
        """What the audit of many comparisons tests: a number a seed, or an item without seeds."""
        gaps = self.gaps(one, other, column)
        if not gaps.size:
            return []
        seeded = self.seeded(one) or self.seeded(other)
        return [float(v) for v in (gaps.mean(axis=1) if seeded else gaps[0])]

    def ids(self, *arms: str) -> list[str]:
        """The trials behind these arms."""
        return [row.id for arm in arms for row in self.rows(arm)]

    def metric(self, arm: str, name: str) -> float:
        """Mean over seeds of a metric; NaN where there is none."""
        found = [row.get(name) for row in self.rows(arm)]
        known = [float(v) for v in found if v is not None]
        return float(np.mean(known)) if known else math.nan

    def cost(self, arm: str, name: str) -> float:
        """Mean over seeds of what it cost; NaN where it was not measured."""
        found = [row.cost[name] for row in self.rows(arm) if name in row.cost]
        return float(np.mean(found)) if found else math.nan


def mean_of(values: np.ndarray, seeded: bool, name: str, level: float = LEVEL) -> Estimate:
    """The mean of (seeds, items); `n` counts seeds where there are any, else items."""
    if not values.size:
        return Estimate(math.nan, method="no trial of an arm ended")
    if seeded and len(values) > 1:
        return crossed(values, level)
    e = over_items(values[0], name, level)
    if seeded:
        return replace(e, n=1, method=f"{e.method}, of one seed")
    return replace(e, method=f"{e.method}; nothing was trained")


def over_items(values: np.ndarray, name: str, level: float = LEVEL) -> Estimate:
    """Bootstrap over items; Student's t below 20 of them."""
    if values.size >= MIN_BOOTSTRAP_ITEMS:
        rng = Seed(0).child("distillation", name).numpy_generator()
        return bootstrap_mean(values, rng, level)
    e = mean_interval(values, level)
    return replace(e, method=e.method.replace("over runs", "over items"))


def crossed(values: np.ndarray, level: float = LEVEL) -> Estimate:
    """Mean of (seeds, items), both of them drawn; the interval of the module's first lines."""
    seeds, items = values.shape
    of_seeds = float(values.mean(axis=1).var(ddof=1)) / seeds
    of_items = float(values.mean(axis=0).var(ddof=1)) / items if items > 1 else math.nan
    e = Estimate(
        float(values.mean()),
        n=seeds,
        method=f"t interval over seeds and items, {100 * level:.4g} %",
    )
    square = of_seeds + of_items
    if math.isnan(square):
        return e
    if square == 0:
        return replace(e, low=e.value, high=e.value)
    freedom = square**2 / (of_seeds**2 / (seeds - 1) + of_items**2 / (items - 1))
    half = t_quantile((1 + level) / 2, max(1, int(freedom))) * math.sqrt(square)
    return replace(e, low=e.value - half, high=e.value + half)


def real(e: Estimate) -> bool:
    """Whether a difference is a result: enough runs, and an interval that leaves 0 out."""
    return e.n >= MIN_SEEDS and e.has_interval and (e.low > 0 or e.high < 0)
