"""The result of `robustness`: the distribution of weights and output, and a Monte Carlo check."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from attnlab.construct.inputs import Scale
from attnlab.construct.numerics import Array
from attnlab.construct.result import plain
from attnlab.construct.score_distribution import ScoreDistribution, probability_negative
from attnlab.core.errors import UsageError


@dataclass(frozen=True)
class RobustnessSettings:
    """The output counts as wrong where the weight of a or of b is below 1/2 - `tolerance`."""

    scale: Scale = 1.0
    tolerance: float = 0.25
    samples: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 0.5:
            raise UsageError(f"the tolerance must lie between 0 and 1/2: got {self.tolerance!r}")
        if self.samples < 2:
            raise UsageError(f"at least 2 samples are needed: got {self.samples}")


@dataclass(frozen=True)
class MonteCarlo:
    """Means over random draws and their standard errors, to check the exact numbers against."""

    samples: int
    weights: Array
    weights_error: Array
    wrong: float
    wrong_error: float
    pair_weights: Array  # (sample, 2): weights of a and b, for figures


@dataclass(frozen=True, eq=False)
class Robustness:
    """Mean and covariance of the weights, averaged over the heads, and of the output.

    wrong      P(weight of a or of b < 1/2 - tolerance); `wrong_error` is its standard error, 0 if
               it is exact
    negative   P(score < 0) of keys a and b, one row per head
    share      of one head: mean and standard deviation of the score difference z_a - z_b, whose
               sigmoid is w_a / (w_a + w_b), which is therefore logit-normal
    how        the method by which `weights` and `wrong` were computed
    """

    pair: tuple[int, int]
    heads: int
    weights: Array
    weights_covariance: Array
    output: Array | None
    output_covariance: Array | None
    wrong: float
    wrong_error: float
    negative: Array
    share: tuple[float, float] | None
    how: dict[str, str]
    residual: float
    sampled: MonteCarlo
    law: ScoreDistribution

    def weight_below(self, points: Any, key: int) -> Array:
        """P(weight of `key`, averaged over the heads, < x) for every x in `points`.

        Exact where the weights depend on a single normal variable, otherwise by Sobol points.
        """
        x = np.asarray(points, dtype=np.float64).reshape(-1)
        if len(self.law.factors) == 1:
            return np.array([self._weight_below(c, key) for c in x])
        if not self.law.factors:
            return (self.weights[key] < x).astype(np.float64)
        parts = [np.sort(w.mean(axis=1)[:, key]) for w in self.law.sobol_weights(0)]
        return np.mean([np.searchsorted(part, x) / len(part) for part in parts], axis=0)

    def _weight_below(self, x: float, key: int) -> float:
        return probability_negative(
            lambda normal: self.law.weights(normal[:, None]).mean(axis=1)[:, [key]] - x
        )

    def as_json(self) -> dict[str, Any]:
        """All numbers, without the score distribution and the single Monte Carlo draws."""
        values = _fields(self, without="law")
        values["sampled"] = _fields(self.sampled, without="pair_weights")
        return plain({name: value for name, value in values.items() if value is not None})


@dataclass(frozen=True, eq=False)
class HeadComparison:
    """One head with the query beta (mu_a + mu_b), and two with beta mu_a and beta mu_b."""

    one: Robustness
    two: Robustness
    why: str

    def as_json(self) -> dict[str, Any]:
        """The numbers of both and the sentence that compares them."""
        return {"one": self.one.as_json(), "two": self.two.as_json(), "why": self.why}


def _fields(record: Any, without: str) -> dict[str, Any]:
    return {
        item.name: getattr(record, item.name) for item in fields(record) if item.name != without
    }
