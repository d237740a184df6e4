"""One trial: keys are drawn and attended to, or the law of the output is computed.

The simulation draws whole keys in h dimensions around means turned at random, and runs softmax
attention on them; the law (`attnlab.construct`) knows the scores' means and variances only. Neither
can inherit the other's mistake.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.head_robustness.plan import EQUAL, SWEPT, VARIES
from attnlab.studies.head_robustness.study import HeadRobustness

Array = NDArray[np.float64]
ARMS = ("one", "two")
BINS, FINE = 21, 5  # of the weight of a; an odd number, so that one half is the middle of a bin
_AT_ONCE = 2_000_000  # entries of keys held in memory


def run(study: HeadRobustness, trial: Trial, context: TrialContext) -> Outcome:
    """Draw keys and attend to them, or compute the exact law of the output."""
    from attnlab.studies.head_robustness.exact import exact

    return exact(trial) if trial.config["kind"] == "exact" else draws(trial)


def draws(trial: Trial) -> Outcome:
    """Both arrangements on the same keys; every number a share or a mean over the draws."""
    c = trial.config
    sample = Sample(trial)
    metrics: dict[str, Any] = {
        "negative": float((sample.own_score < 0).mean()),
        "lost": float((sample.own_weight < 0.5).mean()),
    }
    curves: dict[str, list[float]] = {}
    edges = np.linspace(0, 1, BINS + 1)
    for arm in ARMS:
        pair, square = sample.pair[arm], sample.square[arm]
        off = (np.abs(pair - 0.5) > c["tolerance"]).any(axis=1)
        metrics |= {
            f"{arm}_off": float(off.mean()),
            f"{arm}_mean_a": float(pair[:, 0].mean()),
            f"{arm}_mean_b": float(pair[:, 1].mean()),
            f"{arm}_variance_a": float(pair[:, 0].var()),
            f"{arm}_square": float(square.mean()),
        }
        if arm == "two":
            metrics["off_and_lost"] = float((off & (sample.own_weight < 0.5)).mean())
        counts, _ = np.histogram(pair[:, 0], edges)
        curves[f"{arm}_bins"] = [float(n) for n in counts / len(pair)]
    wanted = c["shown"] > 0 and c["part"] in (EQUAL, VARIES)
    return Outcome(metrics, curves=curves, arrays=sample.shown(c["shown"]) if wanted else {})


class Sample:
    """Both arrangements on the same random keys: one row a draw."""

    def __init__(self, trial: Trial) -> None:
        c = trial.config
        n, h, beta = c["keys"], c["dims"], c["beta"]
        means = orthonormal(n, h, trial.stream.child("means").numpy_generator())
        noise = trial.stream.child("noise").numpy_generator()
        length = trial.stream.child("length").numpy_generator()
        self.pair: dict[str, Array] = {arm: np.empty((c["draws"], 2)) for arm in ARMS}
        self.square: dict[str, Array] = {arm: np.empty(c["draws"]) for arm in ARMS}
        self.own_score, self.own_weight = np.empty(c["draws"]), np.empty(c["draws"])
        self.first: Array | None = None  # keys along μ_a and μ_b, of the first draws
        queries = {"one": beta * (means[:1] + means[1:2]), "two": beta * means[:2]}
        part = max(1, _AT_ONCE // (n * h))
        for start in range(0, c["draws"], part):
            rows = slice(start, min(start + part, c["draws"]))
            count = rows.stop - start
            keys = means + math.sqrt(c["alpha"]) * noise.standard_normal((count, n, h))
            along = math.sqrt(c["spread"]) * length.standard_normal(count)
            keys[:, 0] += along[:, None] * means[0]
            self.own_score[rows] = keys[:, 0] @ means[0]
            if self.first is None:
                self.first = keys[: c["shown"]] @ means[:2].T
            for arm, asked in queries.items():
                heads = softmax(keys @ asked.T)
                self._keep(arm, rows, heads.mean(axis=2))
                if arm == "two":
                    self.own_weight[rows] = heads[:, 0, 0]

    def _keep(self, arm: str, rows: slice, weights: Array) -> None:
        """With orthonormal values the output's coordinates are the weights themselves."""
        self.pair[arm][rows] = weights[:, :2]
        wanted = np.zeros(weights.shape[1])
        wanted[:2] = 0.5
        self.square[arm][rows] = ((weights - wanted) ** 2).sum(axis=1)

    def shown(self, count: int) -> dict[str, np.ndarray]:
        """The first draws: keys in the plane of μ_a and μ_b, outputs in that of v_a and v_b."""
        assert self.first is not None
        outputs = {f"{arm}_output": self.pair[arm][:count].astype(np.float32) for arm in ARMS}
        return {"keys": self.first[:count].astype(np.float32), **outputs}


def softmax(scores: Array) -> Array:
    """exp(score) / Σ over keys, for scores (draw, key, head)."""
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


def orthonormal(n: int, h: int, generator: np.random.Generator) -> Array:
    """n orthonormal rows in h dimensions, turned at random."""
    turned, _ = np.linalg.qr(generator.standard_normal((h, n)))
    return turned.T


def with_value(config: Any, value: float) -> dict[str, Any]:
    """The configuration with the number its part varies set to this value."""
    return {**config, SWEPT[config["part"]]: value}
