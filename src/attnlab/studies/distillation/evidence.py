"""Arms with a score for every test article: differences are paired by seed and by article."""

import math
from dataclasses import replace

import numpy as np

from attnlab.lab.arms import Arms
from attnlab.measure.intervals import LEVEL, Estimate, item_interval, two_way_interval

TRAINED: tuple[str, ...] = ("text", "logits", "human")
KINDS = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "rougeLsum": "ROUGE-Lsum"}


class ScoredArms(Arms):
    """Means and differences over seeds and test articles; a column is one kind of score."""

    def items(self, arm: str, column: str) -> dict[int, np.ndarray]:
        """Seed -> one score per article."""
        return {row.seed: np.asarray(row.arrays[column]) for row in self.rows(arm)}

    def depends_on_seed(self, *arms: str) -> bool:
        """Whether another seed gives another result: an arm was trained, or its weights drawn."""
        drawn = "untuned" in arms and (row := self.first("untuned")) and row.get("init") == "random"
        return bool(drawn) or any(arm in TRAINED for arm in arms)

    def score(self, arm: str, column: str) -> Estimate:
        """The arm's mean score; its interval stays within 0 and 1."""
        values = np.array(list(self.items(arm, column).values()))
        return mean_of(values, self.depends_on_seed(arm), f"{arm} {column}").clip()

    def item_gaps(self, one: str, other: str, column: str) -> np.ndarray:
        """(seeds, articles): one − other; an arm without seeds is compared with every seed."""
        a, b = self.items(one, column), self.items(other, column)
        if not a or not b:
            return np.empty((0, 0))
        if not self.depends_on_seed(one):
            a = dict.fromkeys(b, next(iter(a.values())))
        if not self.depends_on_seed(other):
            b = dict.fromkeys(a, next(iter(b.values())))
        return np.array([a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())])

    def gap(self, one: str, other: str, column: str, level: float = LEVEL) -> Estimate:
        """Mean of one − other with its interval."""
        gaps, seeded = self.item_gaps(one, other, column), self.depends_on_seed(one, other)
        e = mean_of(gaps, seeded, f"{one} {other} {column}", level)
        return e.transform(lambda e: replace(e, method=f"paired {e.method}")) if e.n else e


def mean_of(values: np.ndarray, seeded: bool, name: str, level: float = LEVEL) -> Estimate:
    """The mean of (seeds, items); `n` counts seeds where the result depends on them, else items."""
    if not values.size:
        return Estimate(math.nan, method="no trial of an arm ended")
    if seeded and len(values) > 1:
        return two_way_interval(values, level)
    e = item_interval(values[0], name, level)
    if seeded:
        return e.transform(lambda e: replace(e, n=1, method=f"{e.method}, of one seed"))
    return e.transform(lambda e: replace(e, method=f"{e.method}; nothing was trained"))
