"""Full fine-tuning of an encoder: a search on dev, one test, training sizes, and a collapse."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnlab.audit.checks.grid_edge import grid_edge
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import StudySettings, deferred
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import mean_interval
from attnlab.studies.adapting.evidence import SHARES, AdaptArms
from attnlab.studies.adapting.fine_tuning_claims import (
    collapse_arm,
    collapse_claim,
    collapse_label,
    collapse_trials,
    fine_tuning_claims,
    named_early,
)
from attnlab.studies.adapting.settings import FineTuningSettings, rate_text
from attnlab.studies.adapting.study import AdaptStudy, enough_test_rows

POOLED = {"mean": "the mean of the token vectors", "first": "the vector of the first token"}


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

    figures = deferred(".fine_tuning_figures:figures")

    def trials(self) -> Sequence[Trial]:
        """Seed by seed: the search first, since it takes longest; then the single trainings."""
        s = self.settings
        search = s.search_config(
            s.rates, search=s.search, batches=list(s.batches), all_epochs=list(s.epochs)
        )
        searches = self._every_seed(
            arm="search",
            part="search",
            **search,
            **s.base(method="full", optimizer=s.optimizer),
        )
        long: list[Trial] = []
        if s.long_epochs:
            config = self._steady(epochs=float(s.long_epochs), evaluations=1)
            long = self._every_seed(kind="long", arm="long", part="long", **config)
        sizes = [
            trial
            for rows in sorted(s.sizes, reverse=True)
            for trial in self._every_seed(
                kind="size",
                arm=f"{rows} rows",
                part="sizes",
                **self._steady(epochs=s.size_epochs, rows=rows),
            )
        ]
        trials = [*searches, *long, *self._collapse_trials(), *sizes]
        return sorted(trials, key=lambda trial: trial.seed)

    def _every_seed(self, **config: Any) -> list[Trial]:
        return [self.trial(seed, **config) for seed in range(self.settings.seeds)]

    def _steady(self, **changed: Any) -> dict[str, Any]:
        """The hyperparameters of the trainings outside the search."""
        s = self.settings
        return s.base(
            method="full",
            optimizer=s.optimizer,
            learning_rate=s.steady_rate,
            batch=s.steady_batch,
            **changed,
        )

    def _collapse_trials(self) -> list[Trial]:
        s = self.settings
        if not s.collapse_data:
            return []
        base = s.second_task(
            "collapse",
            method="full",
            optimizer=s.optimizer,
            batch=s.steady_batch,
            evaluations=1,
        )
        config = {"kind": "collapse", "part": "collapse", **base}
        return [
            self.trial(
                seed,
                **config | {"arm": collapse_arm(run), "learning_rate": run[0], "epochs": run[1]},
            )
            for seed in range(s.collapse_seeds)
            for run in sorted(s.collapse_runs, key=lambda run: -run[1])
        ]

    def evidence(self, table: Table) -> AdaptArms:
        """The search, the long training, training sizes and learning rates are arms."""
        s = self.settings
        return AdaptArms(
            table,
            {
                "search": "chosen by dev",
                "long": "long training",
                **{f"{rows} rows": f"{rows:,} training rows" for rows in sorted(s.sizes)},
                **{collapse_arm(run): collapse_label(run) for run in s.collapse_runs},
            },
            shares=SHARES,
        )

    def claims(self, arms: AdaptArms) -> Sequence[Claim]:
        """Every claim whose trials the settings plan."""
        return fine_tuning_claims(arms, self.settings)

    def audits(self, arms: AdaptArms, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Are there enough test rows to tell the chosen cell from the majority class?

        Did dev choose an end of the grid?
        """
        effect = arms.mean("search", "accuracy") - arms.mean("search", "majority")
        rates, batches = (
            arms.choices("search", setting, name, claims)
            for setting, name in (("rates", "rate"), ("batches", "batch"))
        )
        return [
            grid_edge([*rates, *batches]),
            enough_test_rows({arms.label("search"): arms.rows("search")}, effect),
        ]

    def facts(self, arms: AdaptArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """The cells that were chosen, the best epochs, the rates that collapse."""
        s, chosen = self.settings, arms.rows("search")
        cells = Counter(
            f"learning rate {rate_text(row['rate'])}, batch size {row['chosen_batch']}, "
            f"{row['chosen_epochs']:g} epoch{'s' * (row['chosen_epochs'] != 1)}"
            for row in chosen
        )
        by_rate = {c.name: c for c in claims if c.name.startswith("collapses-at-")}
        return {
            **super().facts(arms, claims),
            "first": chosen[0] if chosen else None,
            "cells": [f"{cell} ({n} of {len(chosen)} seeds)" for cell, n in cells.most_common()],
            "long": [row.curves for row in arms.rows("long")],
            "mean_interval": mean_interval,
            "collapse_claims": list(by_rate.values()),
            "collapsing": [
                collapse_label(run)
                for run in s.collapse_runs
                if (c := by_rate.get(collapse_claim(run))) and c.verdict == "holds"
            ],
            "collapse_trials": collapse_trials(arms, s),
            "collapse_table": _collapse_table(arms, s.collapse_runs),
            "pooled": POOLED[s.pooling],
            "cut": next(
                (
                    str(row["cut"])[:1].upper() + str(row["cut"])[1:]
                    for row in arms.table
                    if row.get("cut")
                ),
                "",
            ),
        }


def _collapse_table(arms: AdaptArms, runs: Sequence[tuple[float, float]]) -> list[tuple[str, ...]]:
    """Accuracy with all digits: a collapsed model scores exactly the share of one class."""
    table = []
    for run in runs:
        rows = arms.rows(collapse_arm(run))
        accuracies = ", ".join(f"{row['whole_accuracy']:.7f}" for row in rows)
        early = sum(named_early(row) for row in rows)
        train = arms.last(collapse_arm(run), None, "train_accuracy")
        if rows:
            label = collapse_label(run)
            table.append(
                (label, accuracies, f"{100 * train.value:.1f} %", f"{early} of {len(rows)}")
            )
    return table
