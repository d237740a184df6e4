"""What `robustness` returns: the law of the weights and of the output, and draws beside it.

one head    w_a / (w_a + w_b) = sigmoid(z_a - z_b), z_a - z_b ~ N(m, t^2): the logit-normal
            density phi((logit s - m)/t) / (t s (1 - s))
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.inputs import Scale
from attnlab.construct.result import plain
from attnlab.construct.score_distribution import ScoreDistribution, probability_negative
from attnlab.core.errors import UsageError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RobustnessSettings:
    """`tolerance`: an output is wrong where the weight of a or of b is below 1/2 - tolerance."""

    scale: Scale = 1.0
    tolerance: float = 0.25
    samples: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 0.5:
            raise UsageError(f"the tolerance lies between 0 and 1/2: got {self.tolerance!r}")
        if self.samples < 2:
            raise UsageError(f"at least 2 samples are needed: got {self.samples}")


@dataclass(frozen=True)
class MonteCarlo:
    """Means over random draws, with their standard errors."""

    samples: int
    weights: Array
    weights_error: Array
    wrong: float
    wrong_error: float
    pair_weights: Array  # (sample, 2): weights of a and b, for a picture


@dataclass(frozen=True, eq=False)
class Robustness:
    """The law of the mean weights over the heads, and of the output.

    wrong      P(weight of a or of b < 1/2 - tolerance); its standard error, 0 where it is exact
    negative   P(score < 0) of keys a and b, a row a head
    share      one head: mean and standard deviation of z_a - z_b; w_a/(w_a + w_b) is its sigmoid
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
        """P(weight of `key`, mean over the heads, < x) for every x in `points`.

        Exact where one normal is all the randomness there is; else by even points.
        """
        x = np.asarray(points, dtype=np.float64).reshape(-1)
        if len(self.law.factors) == 1:
            of = lambda at: self.law.weights(at[:, None]).mean(axis=1)[:, [key]]  # noqa: E731
            return np.array([probability_negative(lambda at, c=c: of(at) - c) for c in x])
        if not self.law.factors:
            return (self.weights[key] < x).astype(np.float64)
        parts = [np.sort(w.mean(axis=1)[:, key]) for w in self.law.even(0)]
        return np.mean([np.searchsorted(part, x) / len(part) for part in parts], axis=0)

    def as_json(self) -> dict[str, Any]:
        """Plain numbers; the draws themselves are left out."""
        found = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "law"}
        found["sampled"] = {
            item.name: getattr(self.sampled, item.name)
            for item in fields(self.sampled)
            if item.name != "pair_weights"
        }
        return plain({name: value for name, value in found.items() if value is not None})


@dataclass(frozen=True, eq=False)
class HeadComparison:
    """The same keys seen by one head, beta (mu_a + mu_b), and by two, beta mu_a and beta mu_b."""

    one: Robustness
    two: Robustness
    why: str

    def as_json(self) -> dict[str, Any]:
        """Both laws and the sentence."""
        return {"one": self.one.as_json(), "two": self.two.as_json(), "why": self.why}
