"""Studies that compare arms: the same seeds in every arm, so that differences are paired.

class Counting(ArmStudy):
    arms = {"positional": "position scores only", "off": "attention off"}   # name -> label
    def claims(self, arms: Arms):
        return [
            arms.level("solves", "It counts", ("positional", "accuracy"), above=0.9),
            arms.difference("needs-attention", "Attention off is worse",
                            ("positional", "accuracy"), ("off", "accuracy"), above=0.0),
        ]
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from attnlab.lab.claim import Claim, judge, judge_ratio
from attnlab.lab.study import NOT_OF_A_TRIAL, Study
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import Estimate, geometric_mean, mean_interval
from attnlab.measure.shares import share_difference, share_interval

Metric = tuple[str, str]  # arm, metric
Count = tuple[float, float]  # right answers, items


@dataclass(frozen=True)
class Share:
    """A metric that is a share of items, whose interval covers other items and ends at 0 and 1.

    `items` is the column that counts them, "" where none does; `same`: every seed has the same.
    """

    items: str = ""
    same: bool = False


@dataclass(frozen=True)
class Arms:
    """The trials of a run by arm and seed. A metric that a trial lacks is left out."""

    table: Table
    labels: Mapping[str, str]
    shares: Mapping[str, Share] = field(default_factory=dict, kw_only=True)  # by metric

    def names(self) -> list[str]:
        """Arms with a trial, in the order they were declared."""
        return [arm for arm in self.labels if self.rows(arm)]

    def label(self, arm: str) -> str:
        """The arm in words, for tables and figures."""
        return self.labels[arm]

    def rows(self, arm: str) -> list[Row]:
        """One row a seed, sorted by seed."""
        return self._by_arm.get(arm, [])

    @cached_property
    def _by_arm(self) -> dict[Any, list[Row]]:
        by_arm: dict[Any, list[Row]] = {}
        for row in sorted(self.table, key=lambda row: row.seed):
            by_arm.setdefault(row.get("arm"), []).append(row)
        return by_arm

    def first(self, arm: str) -> Row | None:
        """The trial of the lowest seed; None where there is none."""
        return next(iter(self.rows(arm)), None)

    def mean_cost(self, arm: str, kind: str) -> float:
        """Mean cost of the trials in which it was measured; NaN where it was in none."""
        costs = [row.cost[kind] for row in self.rows(arm) if kind in row.cost]
        return sum(costs) / len(costs) if costs else math.nan

    def ids(self, *arms: str) -> list[str]:
        """The trials behind these arms; of all arms when none is named."""
        return [row.id for arm in arms or self.names() for row in self.rows(arm)]

    def values(self, arm: str, metric: str) -> dict[int, float]:
        """Seed -> metric."""
        values = {row.seed: row.get(metric) for row in self.rows(arm)}
        return {seed: float(value) for seed, value in values.items() if value is not None}

    def estimate(self, arm: str, metric: str) -> Estimate:
        """Mean over seeds with its t interval; of a share with an interval over seeds and items."""
        values, share = self.values(arm, metric), self.shares.get(metric)
        e = mean_interval(list(values.values()))
        if share is None:
            return e
        counts = self.counts(arm, metric)
        if len(counts) < e.n or not counts:  # not every seed says how many items it has
            return e.clip()
        return share_interval(list(counts.values()), same_items=share.same)

    def counts(self, arm: str, metric: str) -> dict[int, Count]:
        """Seed -> right answers and items, where the metric is a share whose items are counted."""
        column = self.shares.get(metric, Share()).items
        items = self.values(arm, column) if column else {}
        return {
            seed: (value * items[seed], items[seed])
            for seed, value in self.values(arm, metric).items()
            if math.isfinite(value) and items.get(seed)
        }

    def geometric(self, arm: str, metric: str) -> Estimate:
        """Geometric mean over seeds, for quantities compared by ratios (perplexities)."""
        return geometric_mean(list(self.values(arm, metric).values()))

    def mean(self, arm: str, metric: str) -> float:
        """Mean over seeds; NaN where there is none."""
        return self.estimate(arm, metric).value

    def differences(
        self, one: Metric, other: Metric, seeds: Collection[int] | None = None
    ) -> list[float]:
        """one − other for every seed that has both; `seeds` restricts them."""
        a, b = self.values(*one), self.values(*other)
        shared = sorted(a.keys() & b.keys())
        return [a[seed] - b[seed] for seed in shared if seeds is None or seed in seeds]

    def gap_estimate(
        self, one: Metric, other: Metric, seeds: Collection[int] | None = None
    ) -> Estimate:
        """one − other with its t interval; of shares also where it is equal in every seed."""
        a, b = self.counts(*one), self.counts(*other)
        gaps = self.differences(one, other, seeds)
        shared = [seed for seed in sorted(a.keys() & b.keys()) if seeds is None or seed in seeds]
        if len(shared) < len(gaps) or not shared:
            return mean_interval(gaps)
        same = self.shares[one[1]].same
        return share_difference([a[s] for s in shared], [b[s] for s in shared], same_items=same)

    def log_ratios(self, one: Metric, other: Metric) -> list[float]:
        """log(one / other) for every seed that has both."""
        a, b = self.values(*one), self.values(*other)
        return [math.log(a[seed] / b[seed]) for seed in sorted(a.keys() & b.keys())]

    def arrays(self, arm: str, name: str) -> list[np.ndarray]:
        """An array of every seed that has it."""
        return [np.asarray(row.arrays[name]) for row in self.rows(arm) if name in row.arrays]

    def curve(self, arm: str, x: str, y: str) -> tuple[np.ndarray, list[Estimate]]:
        """A curve's mean over seeds with t intervals: the steps, and an estimate at each."""
        rows = [row for row in self.rows(arm) if row.curves.get(x)]
        if not rows:
            return np.empty(0), []
        columns = np.array([row.curves[y] for row in rows], dtype=float).T
        estimates = [mean_interval(column) for column in columns]
        if y in self.shares:
            estimates = [e.clip() for e in estimates]
        return np.array(rows[0].curves[x], dtype=float), estimates

    def level(self, name: str, statement: str, metric: Metric, **rest: Any) -> Claim:
        """The claim that an arm's mean over seeds lies in a range; `rest` as for `judge`."""
        arm, measured = metric
        quantity = f"{measured.replace('_', ' ')}, {self.label(arm)}"
        rest = {"quantity": quantity, "trials": self.ids(arm), **rest}
        return judge(name, statement, self.estimate(arm, measured), **rest)

    def right_answers(self, metric: str, items: int) -> dict[str, tuple[int, int]]:
        """By label, right answers and test items of the arm's seed whose accuracy is least certain.

        Least certain is what lies nearest to one half; for the audit `small-sample`.
        """
        shares = {arm: self.values(arm, metric).values() for arm in self.names()}
        return {
            self.label(arm): (round(min(values, key=lambda a: abs(a - 0.5)) * items), items)
            for arm, values in shares.items()
            if values
        }

    def difference(
        self,
        name: str,
        statement: str,
        one: Metric,
        other: Metric,
        *,
        seeds: Collection[int] | None = None,
        **rest: Any,
    ) -> Claim:
        """The comparison that one − other, paired by seed, lies in a range."""
        gap = self.gap_estimate(one, other, seeds)
        rest = {**self._versus(one, other, "−"), **rest}
        return judge(name, statement, gap, comparison=True, **rest)

    def ratio(self, name: str, statement: str, one: Metric, other: Metric, **rest: Any) -> Claim:
        """The claim that one / other, paired by seed, lies in a range; see `judge_ratio`."""
        logs = self.log_ratios(one, other)
        return judge_ratio(name, statement, logs, **{**self._versus(one, other, "/"), **rest})

    def _versus(self, one: Metric, other: Metric, sign: str) -> dict[str, Any]:
        """The quantity in words, and the trials behind it."""
        words = f"{self.label(one[0])} {sign} {self.label(other[0])}"
        return {
            "quantity": f"{one[1].replace('_', ' ')}, {words}",
            "trials": self.ids(*dict.fromkeys((one[0], other[0]))),
        }


class ArmStudy(Study):
    """A study whose trials are arms × seeds and whose evidence is `Arms`."""

    arms: ClassVar[Mapping[str, str]]  # name -> label
    shares: ClassVar[Mapping[str, Share]] = {}  # metrics that are shares of items
    not_of_a_trial: ClassVar[Collection[str]] = ()  # own settings that no trial depends on

    def chosen_arms(self) -> Sequence[str]:
        """The arms to run, in the order of their trials; all by default."""
        return list(self.arms)

    def arm_settings(self, arm: str) -> Mapping[str, Any]:
        """What the arm changes in the trial's configuration."""
        return {}

    def trial_settings(self) -> dict[str, Any]:
        """The settings a trial depends on, as plain values."""
        skipped = NOT_OF_A_TRIAL | set(self.not_of_a_trial)
        return {key: value for key, value in self.settings_json().items() if key not in skipped}

    def trials(self) -> Sequence[Trial]:
        """Every arm with every seed."""
        settings = self.trial_settings()
        return [
            self.trial(seed, arm=arm, part=arm, **{**settings, **self.arm_settings(arm)})
            for arm in self.chosen_arms()
            for seed in range(self.settings.seeds)
        ]

    def evidence(self, table: Table) -> Arms:
        """The trials by arm."""
        return Arms(table, self.arms, shares=self.shares)
