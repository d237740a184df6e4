"""Attention that takes the one best item: measured slopes, and a task learned with it.

Arms are read at the learning rate that suits each best.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np
from pydantic import model_validator

from attnlab.audit.checks.attention_worth import attention_worth
from attnlab.audit.checks.baselines import baselines
from attnlab.audit.checks.grid_edge import Choice, grid_edge
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.finding import Finding
from attnlab.lab.arms import Arms, Share
from attnlab.lab.claim import Claim
from attnlab.lab.findings import resting_on
from attnlab.lab.study import Study, StudySettings, deferred, setting
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import Estimate, geometric_mean, mean_interval

SOFT, COLD, ANNEALED, THROUGH = "softmax", "softmax, cold", "softmax, annealed", "straight-through"
HARD, HARD_FIXED, OFF = "argmax", "argmax, fixed embeddings", "attention off"
ARMS: tuple[str, ...] = (SOFT, ANNEALED, COLD, THROUGH, HARD, HARD_FIXED, OFF)
SHARES: dict[str, Share] = dict.fromkeys(
    ("accuracy", "hard_accuracy", "dev_accuracy", "found", "found_start"), Share("scored")
)
BASELINES = {
    "chance": "chance",
    "majority": "most frequent answer",
    "one_item": "one item, whatever is asked",
    "most_frequent": "the row's most frequent value",
}
Grid = tuple[float, ...]
Vectors = tuple[tuple[float, float], ...]
TASK = ("pairs", "symbols", "answers", "width", "scored")
TRAINING = ("steps", "batch", "points", "device")


class HardSettings(StudySettings):
    """A given example, random instances for the gradients, and a task for the learning."""

    seeds: int = setting(
        "sets of random instances; models per arm and learning rate", 5, smoke=3, full=10, ge=1
    )
    given_keys: Vectors = setting(
        "keys of the given example, in the plane",
        ((1.0, 0.1), (0.5, 0.9), (-0.6, 0.8), (-0.9, -0.5), (0.4, -0.9)),
    )
    given_values: Grid = setting("its values, one number per key", (1.0, -0.5, 2.0, 0.0, 1.5))
    given_query: tuple[float, float] = setting("its query", (2.2, 0.6))
    temperatures: Grid = setting(
        "temperatures T of softmax(scores / T)",
        (2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01),
        smoke=(2.0, 0.5, 0.1, 0.02),
    )
    instances: int = setting(
        "instances per set, by autograd and finite differences", 12, smoke=3, full=100, ge=3
    )
    many: int = setting(
        "instances per set for the mean, by the formula", 20_000, smoke=400, full=200_000, ge=10
    )
    instance_keys: int = setting("keys of an instance", 8, ge=2)
    instance_dim: int = setting("dimensions h of its keys; scores are k·q/√h", 4, ge=1)
    instance_outputs: int = setting("dimensions of its values", 3, ge=1)
    pairs: int = setting("(key, value) pairs in a row of the task", 8, full=16, ge=2)
    symbols: int = setting("number of different keys", 16, full=64, ge=2)
    answers: int = setting("number of different values", 16, full=32, ge=2)
    width: int = setting("width of the one-layer model", 32, full=64, ge=2)
    steps: int = setting("training steps", 800, smoke=150, full=5000, ge=1)
    batch: int = setting("rows per step; every row is new", 64, smoke=32, full=128, ge=1)
    rates: Grid = setting(
        "learning rates; each arm is reported at its best on dev rows",
        (0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
        smoke=(0.01,),
        full=(0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3),
    )
    cold: float = setting("temperature of the arm with a low fixed temperature", 0.01, gt=0)
    anneal_to: float = setting("final temperature of the annealed arm, from 1", 0.02, gt=0)
    scored: int = setting("test rows, and as many dev rows", 2000, smoke=500, full=10_000, ge=20)
    points: int = setting("points of a learning curve", 20, smoke=5, full=40, ge=1)

    @model_validator(mode="after")
    def _values_fit_each_other(self) -> "HardSettings":
        if len(self.given_keys) != len(self.given_values) or not self.given_keys:
            raise ValueError("given_keys and given_values must have the same length, 1 or more")
        if self.symbols < self.pairs:
            raise ValueError(f"{self.pairs} pairs with different keys need as many symbols")
        for name in ("temperatures", "rates"):
            values = getattr(self, name)
            if not values or min(values) <= 0 or len(set(values)) < len(values):
                raise ValueError(f"{name} must be above 0 and differ")
        return self


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
        choices: list[Choice] = []
        for arm in self.names():
            chosen, tried = float(self.rows(arm)[0]["rate"]), tuple(self.by_rate(arm))
            choices.append(Choice(arm, "rates", chosen, tried, resting_on(judged, self.ids(arm))))
        return choices

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

    def baseline(self, name: str) -> float:
        """Accuracy of a rule that needs no model, mean over the seeds' test rows."""
        return mean_interval(self.table.where(kind="baselines").column(name)).value


def _rank(models: Table) -> tuple[float, float]:
    """Mean dev accuracy, then minus the mean dev loss; last where a training diverged."""
    scores = [(row.get("dev_accuracy"), row.get("dev_nll")) for row in models]
    if any(None in pair for pair in scores):
        return (-1.0, -math.inf)
    accuracy, nll = np.array(scores, dtype=float).mean(axis=0)
    return (float(accuracy), -float(nll))


class HardAttention(Study):
    """Argmax attention beside softmax at falling temperature and a straight-through estimate."""

    name = "hard-attention"
    version = 2  # equal rates: the loss on dev rows decides
    question = "Why can gradient descent not train argmax attention, and what helps?"
    source = "A course exercise on attention by hand: argmax instead of softmax"
    Settings: ClassVar[type[StudySettings]] = HardSettings
    settings: HardSettings
    expected: ClassVar = {
        "smoke": "about 10 seconds on two cores",
        "quick": "about 7 minutes on two cores",
        "full": "not measured",
    }
    shares_accelerator = True
    template = "report.md"

    run = deferred(".trial:run")
    claims = deferred(".claims:claims")
    figures = deferred(".figures:figures")
    facts = deferred(".claims:facts")

    def trials(self) -> Sequence[Trial]:
        """The given example; sets of instances; every arm, learning rate and seed; baselines."""
        s = self.settings
        task = {key: getattr(s, key) for key in TASK}
        training = {key: getattr(s, key) for key in TRAINING}
        instances = {
            "temperatures": s.temperatures,
            "instances": s.instances,
            "many": s.many,
            "keys": s.instance_keys,
            "dim": s.instance_dim,
            "outputs": s.instance_outputs,
        }
        models = [
            {"part": arm, "arm": arm, "order": order, "choice": choice, "rate": rate}
            for order, (arm, choice) in enumerate(choices(s).items())
            for rate in s.rates
        ]
        example = {"keys": s.given_keys, "values": s.given_values, "query": s.given_query}
        seeds = range(s.seeds)
        return [
            self.trial(0, kind="given", part="given example", **example),
            *(self.trial(seed, kind="slopes", part="slopes", **instances) for seed in seeds),
            *(
                self.trial(seed, kind="model", **model, **task, **training)
                for seed, model in product(seeds, models)
            ),
            *(self.trial(seed, kind="baselines", part="baselines", **task) for seed in seeds),
        ]

    def evidence(self, table: Table) -> Evidence:
        """Slopes by temperature, and every arm at its best learning rate."""
        return Evidence(table, {arm: arm for arm in ARMS}, shares=SHARES)

    def audits(self, e: Evidence, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Baselines, what attention is worth, whether test rows and learning rates suffice."""
        known = {words: e.baseline(name) for name, words in BASELINES.items()}
        known = {words: value for words, value in known.items() if value == value}
        if known and e.estimate(OFF, "accuracy").n:
            known["the model with attention off"] = e.mean(OFF, "accuracy")
        compared = {"argmax-falls-short": HARD, "cold-from-the-start-is-worse": COLD}
        gaps = {name: e.differences((arm, "nll"), (SOFT, "nll")) for name, arm in compared.items()}
        log_ratios = {name: sum(runs) / len(runs) for name, runs in gaps.items() if runs}
        behind = next(c.estimate.value for c in claims if c.name == "argmax-falls-short")
        return [
            baselines(e.estimate(SOFT, "accuracy"), known, ceiling=1.0),
            attention_worth(e.differences((OFF, "nll"), (SOFT, "nll")), log_ratios),
            small_sample(e.right_answers("accuracy", self.settings.scored), behind),
            grid_edge(e.rate_choices(claims)),
            e.collapse(),
        ]


def choices(s: HardSettings) -> dict[str, dict[str, Any]]:
    """Arm -> fields of `Choice` that differ from softmax; all start from the same weights."""
    return {
        SOFT: {},
        ANNEALED: {"temperature": [1.0, s.anneal_to]},
        COLD: {"temperature": [s.cold, s.cold]},
        THROUGH: {"normalise": "straight-through"},
        HARD: {"normalise": "argmax"},
        # keys and values are read from the same embeddings: held fixed, no gradient finds a way
        HARD_FIXED: {"normalise": "argmax", "fixed": True},
        OFF: {"mask": "self"},  # the query at position 0 sees the first item only
    }
