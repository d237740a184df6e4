"""Arms compared: the same seed has the same data order in every arm, so differences are paired."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval


@dataclass(frozen=True)
class Arms:
    """The trained models of a run, by arm; and the n-gram baselines on the same tokens."""

    table: Table

    def rows(self, arm: str) -> Table:
        """The seeds of one arm."""
        return self.table.where(kind="gpt", arm=arm)

    def names(self) -> list[str]:
        """The arms that ended, in the order of the plan."""
        found = {r["arm"]: r["place"] for r in self.table.where(kind="gpt")}
        return sorted(found, key=lambda name: found[name])

    def values(self, arm: str, metric: str) -> dict[int, float]:
        """Seed -> metric; a seed whose metric does not exist is left out."""
        found = {r.seed: r.get(metric) for r in self.rows(arm)}
        return {seed: float(v) for seed, v in found.items() if v is not None}

    def estimate(self, arm: str, metric: str) -> Estimate:
        """Mean over seeds; of a perplexity the geometric mean, exp(mean of logs)."""
        return geometric(list(self.values(arm, metric).values()))

    def log_ratios(self, arm: str, base: str, metric: str) -> list[float]:
        """log(metric of arm / metric of base), a seed."""
        ours, theirs = self.values(arm, metric), self.values(base, metric)
        return [math.log(ours[s] / theirs[s]) for s in sorted(ours.keys() & theirs.keys())]

    def baseline(self, order: str, metric: str = "dev_perplexity") -> float:
        """Perplexity of an n-gram model on the same dev sentences; NaN where it was not run."""
        rows = self.table.where(kind="ngram", order=order).rows
        return float(rows[0][metric]) if rows else math.nan

    def ids(self, *arms: str) -> list[str]:
        """The trials behind these arms."""
        return [r.id for arm in arms for r in self.rows(arm)]


def geometric(values: Sequence[float]) -> Estimate:
    """exp of the mean log with its t interval: ratios, not differences, are what repeats."""
    logs = mean_interval(np.log(values)) if len(values) else Estimate(math.nan, method="no runs")
    return exponential(logs)


def exponential(logs: Estimate) -> Estimate:
    """An estimate of a logarithm as one of the quantity itself."""
    low, high = (
        (math.exp(logs.low), math.exp(logs.high)) if logs.has_interval else (math.nan, math.nan)
    )
    return Estimate(math.exp(logs.value), low, high, logs.n, f"exp of: {logs.method}")


def ratio_claim(  # noqa: PLR0913  (a comparison has this many parts; each is named at the call)
    arms: Arms,
    name: str,
    statement: str,
    pair: tuple[str, str],
    *,
    above: float = -math.inf,
    below: float = math.inf,
    metric: str = "dev_perplexity",
    reported: Reported | None = None,
) -> Claim:
    """Perplexity of the first arm over that of the second, paired by seed, lies in a range.

    Only a claim that one arm is better or worse (an open range ending at 1) is a comparison for
    the audit of many comparisons.
    """
    logs = arms.log_ratios(*pair, metric)
    one_sided = (above, below) in ((1.0, math.inf), (-math.inf, 1.0))
    return judge(
        name,
        statement,
        exponential(mean_interval(logs)),
        above=above,
        below=below,
        quantity=f"perplexity, {pair[0]} / {pair[1]}",
        reported=reported,
        trials=arms.ids(*pair),
        runs=logs if one_sided else (),
    )


def against_baseline(arms: Arms, arm: str, order: str) -> Claim:
    """The arm's perplexity is below that of an n-gram model on the same tokens."""
    base = arms.baseline(order)
    logs = [math.log(v / base) for v in arms.values(arm, "dev_perplexity").values()]
    return judge(
        f"beats-{order}",
        f"{arm} beats a {order} model of the same text",
        exponential(mean_interval(logs)),
        below=1.0,
        quantity=f"perplexity, {arm} / {order}",
        trials=arms.ids(arm),
        runs=logs,
    )


def first_seed(table: Table) -> list[Row]:
    """One model an arm: the one whose samples are shown."""
    lowest = min((r.seed for r in table), default=0)
    return [r for r in table if r.seed == lowest]
