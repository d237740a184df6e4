"""Full fine-tuning of an encoder: a search on dev, one test, training sizes, and a collapse."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import model_validator

from attnlab.audit.checks.grid_edge import grid_edge
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import StudySettings, deferred, setting
from attnlab.lab.table import Row
from attnlab.lab.trial import Trial
from attnlab.studies.adapting.evidence import AdaptArms, enough_test_rows
from attnlab.studies.adapting.study import AdaptSettings, AdaptStudy, Rates, rate_text


class Run(NamedTuple):
    """A training at a learning rate at which a model may collapse."""

    rate: float
    epochs: float

    @property
    def arm(self) -> str:
        """The name of its arm."""
        return f"rate {self.rate:g}, {self.epochs:g} epochs"

    @property
    def claim(self) -> str:
        """The name of the claim that such models collapse."""
        return f"collapses-at-{self.rate:g}-{self.epochs:g}-epochs"

    @property
    def label(self) -> str:
        """Learning rate and epochs in words."""
        return f"{rate_text(self.rate)} ({self.epochs:g} epochs)"


class FineTuningSettings(AdaptSettings):
    """A search, learning curves, a long training, and a collapse at too high a learning rate."""

    search: Literal["grid", "halving"] = setting(
        "grid: every cell; halving: more epochs for the best third of the cells",
        "halving",
        full="grid",
    )
    batches: tuple[int, ...] = setting(
        "batch sizes of the search", (8,), smoke=(16,), full=(64, 128, 256), min_length=1
    )
    rates: Rates = setting(
        "learning rates of the search",
        (5e-5, 2e-4, 8e-4),
        smoke=(0.003, 0.01, 0.03),
        full=(1e-5, 5e-5, 1e-4),
        min_length=1,
    )
    epochs: tuple[float, ...] = setting(
        "numbers of epochs of the search; for halving, the rungs",
        (1.0, 3.0),
        full=(2.0, 5.0),
        min_length=1,
    )
    optimizer: Literal["adamw", "sgd", "adagrad"] = setting("optimizer of every training", "adamw")
    steady_rate: float = setting(
        "learning rate outside the search: training sizes, long training", 5e-5, smoke=0.01, gt=0
    )
    steady_batch: int = setting("batch size outside the search", 8, smoke=16, full=64, ge=1)
    sizes: tuple[int, ...] = setting(
        "numbers of training rows to compare",
        (50, 200),
        smoke=(32, 320),
        full=(108, 216, 432, 865, 1730, 3460, 6920),
    )
    size_epochs: float = setting("epochs for each number of training rows", 3.0, gt=0)
    long_epochs: int = setting("epochs of the long training; 0: none", 5, smoke=4, full=10, ge=0)

    collapse_data: str = setting(
        "data on which a model collapses; empty: none", "boolq", smoke="made-up pairs"
    )
    collapse_rates: Rates = setting(
        "reported learning rates at which a model collapses",
        (1.25e-2,),
        smoke=(20.0,),
        full=(5e-4, 1e-3, 1.25e-2, 1.25e-2),
    )
    collapse_epochs: tuple[float, ...] = setting(
        "training epochs at each of these learning rates, or one number for all; "
        "the learning rate to compare with has the fewest",
        (2.0,),
        full=(7.0, 9.0, 12.0, 20.0),
        min_length=1,
    )
    sane_rate: float = setting("learning rate to compare them with", 5e-5, smoke=0.01, gt=0)
    collapse_seeds: int = setting("models per learning rate", 3, ge=1)
    collapse_rows: int = setting(
        "training rows of collapse_data; 0: all", 128, smoke=96, full=0, ge=0
    )
    collapse_scored: int = setting(
        "dev rows and test rows of collapse_data, each; 0: all", 64, smoke=96, full=0, ge=0
    )
    collapse_longest: int = setting(
        "maximum tokens of a question and its passage", 96, smoke=24, full=256, ge=8
    )

    @property
    def collapse_runs(self) -> list[Run]:
        """Every training there; the last one is not to collapse."""
        epochs = self.collapse_epochs
        if len(epochs) == 1:
            epochs = epochs * len(self.collapse_rates)
        high = [Run(*run) for run in zip(self.collapse_rates, epochs, strict=True)]
        return [*high, Run(self.sane_rate, min(self.collapse_epochs))]

    @model_validator(mode="after")
    def _fits(self) -> "FineTuningSettings":
        if self.rows and max(self.sizes, default=0) > self.rows:
            raise ValueError(
                f"sizes: {max(self.sizes)} rows cannot be drawn from {self.rows} training rows"
            )
        if min(self.collapse_epochs) <= 0:
            raise ValueError("collapse_epochs: epochs are greater than 0")
        if len(self.collapse_epochs) not in (1, len(self.collapse_rates)):
            raise ValueError("collapse_epochs: one number, or one for each of collapse_rates")
        if len(set(self.collapse_runs)) != len(self.collapse_runs):
            raise ValueError("collapse_rates: a learning rate and its epochs are given twice")
        return self


class FineTuning(AdaptStudy):
    """Reported: RoBERTa-base on SST-2, 94.8 % test; on BoolQ 0.6217125 in four runs, collapsed."""

    name = "fine-tuning"
    version = 2
    question = "How well does a fine-tuned encoder classify, and on which rows was it chosen?"
    source = (
        "Course reports: RoBERTa-base on SST-2, a grid of 18 cells, 95.9 / 93.2 / 94.8 % train / "
        "validation / test; on BoolQ validation 0.6217125 at four rates, the share of 'yes'"
    )
    Settings: ClassVar[type[StudySettings]] = FineTuningSettings
    settings: FineTuningSettings
    presets: ClassVar = {"full": {"evaluations": 4}}
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "about 11 minutes on two cores (estimated)",
        "full": "not measured since BoolQ is trained for 7 to 20 epochs; one H200 "
        "(--device cuda --workers 14)",
    }
    may_fail: ClassVar = {"collapse": ("rate *",)}  # these rates are tried because they collapse
    template = "fine_tuning.md"

    claims = deferred(".fine_tuning_claims:claims")
    figures = deferred(".figures:fine_tuning_figures")

    def trials(self) -> Sequence[Trial]:
        """Seed by seed: the search first, since it takes longest; then the single trainings."""
        s = self.settings
        full = {"method": "full", "optimizer": s.optimizer}
        steady = {**full, "learning_rate": s.steady_rate, "batch": s.steady_batch}
        search = s.search_config(s.rates, s.batches, s.epochs, s.search)
        plan = [(s.seeds, {"arm": "search", "part": "search", **search, **s.base(**full)})]
        if s.long_epochs:
            config = s.base(**steady, epochs=float(s.long_epochs), evaluations=1)
            plan.append((s.seeds, {"kind": "long", "arm": "long", "part": "long", **config}))
        if s.collapse_data:
            config = s.second_task("collapse", **full, batch=s.steady_batch, evaluations=1)
            config |= {"kind": "collapse", "part": "collapse"}
            for run in sorted(s.collapse_runs, key=lambda run: -run.epochs):
                changed = {"arm": run.arm, "learning_rate": run.rate, "epochs": run.epochs}
                plan.append((s.collapse_seeds, config | changed))
        for rows in sorted(s.sizes, reverse=True):
            config = s.base(**steady, epochs=s.size_epochs, rows=rows)
            config |= {"kind": "size", "part": "sizes", "arm": f"{rows} rows"}
            plan.append((s.seeds, config))
        trials = [self.trial(seed, **config) for seeds, config in plan for seed in range(seeds)]
        return sorted(trials, key=lambda trial: trial.seed)

    def labels(self) -> Mapping[str, str]:
        """The search, the long training, training sizes and learning rates are arms."""
        s = self.settings
        return {
            "search": "chosen by dev",
            "long": "long training",
            **{f"{rows} rows": f"{rows:,} training rows" for rows in sorted(s.sizes)},
            **{run.arm: run.label for run in s.collapse_runs},
        }

    def audits(self, arms: AdaptArms, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Are there enough test rows to tell the chosen cell from the majority class?

        Did dev choose an end of the grid?
        """
        effect = arms.mean("search", "accuracy") - arms.mean("search", "majority")
        rates = arms.choices("search", "rates", claims)
        batches = arms.choices("search", "batches", claims, key="batch")
        return [
            grid_edge([*rates, *batches]),
            enough_test_rows({arms.label("search"): arms.rows("search")}, effect),
        ]

    def facts(self, arms: AdaptArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """The cells that were chosen, the learning rates that collapse, how texts were cut."""
        runs, chosen = self.settings.collapse_runs, arms.rows("search")
        cells = Counter(
            f"learning rate {rate_text(row['rate'])}, batch size {row['chosen_batch']}, "
            f"{row['chosen_epochs']:g} epoch{'s' * (row['chosen_epochs'] != 1)}"
            for row in chosen
        )
        holds = {claim.name for claim in claims if claim.verdict == "holds"}
        cut = next((str(row["cut"]) for row in arms.table if row.get("cut")), "")
        return {
            "cells": [f"{cell} ({n} of {len(chosen)} seeds)" for cell, n in cells.most_common()],
            "collapsing": [run.label for run in runs if run.claim in holds],
            "collapse_trials": [row for run in runs for row in arms.rows(run.arm)],
            "collapse_table": [_table_line(arms, run) for run in runs if arms.rows(run.arm)],
            "cut": cut[:1].upper() + cut[1:],
        }


def named_early(row: Row) -> bool:
    """Whether the audit `collapse` failed on dev at the end of the first epoch."""
    return any(f.name == "collapse" and f.evidence.get("first_epoch") for f in row.findings)


def _table_line(arms: AdaptArms, run: Run) -> tuple[str, ...]:
    """Accuracy with all digits: a collapsed model scores exactly the share of one class."""
    rows = arms.rows(run.arm)
    accuracies = ", ".join(f"{row['whole_accuracy']:.7f}" for row in rows)
    train = arms.last(run.arm, "train_accuracy").value
    early = f"{sum(map(named_early, rows))} of {len(rows)}"
    return run.label, accuracies, f"{100 * train:.1f} %", early
