"""AdamW, SGD without and with momentum, Adagrad: each at its own learning rate, and all at one."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnlab.audit.checks.grid_edge import grid_edge
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.study import StudySettings, deferred
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial
from attnlab.studies.adapting.evidence import (
    SHARES,
    AdaptArms,
    difference_of_estimates,
    no_collapse,
)
from attnlab.studies.adapting.settings import NAMES, OptimizerSettings, rate_text
from attnlab.studies.adapting.study import AdaptStudy, enough_test_rows

COURSE = "course report: RoBERTa-base on SST-2, one rate for all, one run"
REPORTED_GAP = 0.43  # of validation accuracies: 93 % (Adagrad) − "around 50 %" (SGD)


class Optimizers(AdaptStudy):
    """Reported: at one learning rate for all, SGD stays near 50 % where the others learn."""

    name = "optimizers"
    version = 2
    question = "Is SGD worse than AdamW at fine-tuning, or was it given the wrong learning rate?"
    source = "A course report: four optimizers at one learning rate, SGD near 50 %"
    Settings: ClassVar[type[StudySettings]] = OptimizerSettings
    settings: OptimizerSettings
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "about 14 minutes on two cores (estimated)",
        "full": "not measured with ten epochs; one H200 (--device cuda --workers 14)",
    }
    may_fail: ClassVar = {"collapse": ("*",), "baselines": ("*",)}  # that is what is asked here
    template = "optimizers.md"

    figures = deferred(".optimizer_figures:figures")

    def trials(self) -> Sequence[Trial]:
        """A search over the learning rates of each optimizer; the common one is among them."""
        s = self.settings
        training = {
            name: s.base(
                method="full",
                optimizer="sgd" if name == "momentum" else name,
                momentum=s.momentum if name == "momentum" else 0.0,
            )
            for name in s.optimizers
        }
        return [
            self.trial(
                seed,
                arm=name,
                part=name,
                **s.search_config(
                    s.rates(name), search="grid", batches=[s.batch], all_epochs=[s.epochs]
                ),
                **training[name],
            )
            for seed in range(s.seeds)
            for name in s.optimizers
        ]

    def evidence(self, table: Table) -> AdaptArms:
        """Every optimizer is an arm."""
        labels = {name: NAMES[name] for name in self.settings.optimizers}
        return AdaptArms(table, labels, shares=SHARES)

    def claims(self, arms: AdaptArms) -> Sequence[Claim]:
        """AdamW against each of the others: at the common learning rate, and each at its own."""
        chosen = self.settings.optimizers
        others = [name for name in chosen if name != "adamw"] if "adamw" in chosen else []
        rate = self.settings.common_rate
        compared = [
            (
                _at_one_rate(arms, name, rate),
                _at_own_rate(arms, name),
                _gap_shrinks(arms, name, rate),
            )
            for name in others
        ]
        return [
            *(claim for three in compared for claim in three),
            *(_adagrad_generalises(arms, rate) if "adagrad" in others else []),
            no_collapse(arms.all_rows(), arms.row_label),
        ]

    def audits(self, arms: AdaptArms, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Did dev choose an end of a grid? Could the test rows show a gap like the reported one?"""
        rows = {arms.label(name): arms.rows(name) for name in arms.names()}
        at_own = [claim for claim in claims if claim.name.endswith("-its-own")]
        choices = [
            choice
            for name in arms.names()
            for choice in arms.choices(name, f"{name}_rates", "rate", at_own)
        ]
        return [grid_edge(choices), enough_test_rows(rows, REPORTED_GAP)]

    def facts(self, arms: AdaptArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """Accuracies at the common and at the chosen learning rates, and the rates themselves."""
        s = self.settings
        return {
            **super().facts(arms, claims),
            "at_common_rate": lambda name: arms.dev_at_rate(name, s.common_rate),
            "common_rate": rate_text(s.common_rate),
            "ends": [
                ["at " + rate_text(s.common_rate), s.common_rate],
                ["at its own learning rate", None],
            ],
            "names": NAMES,
            "majority": _first(arms, "majority"),
            "trained": int(_first(arms, "trained")),
        }


def _first(arms: AdaptArms, metric: str) -> float:
    """A metric that all trials share."""
    return next((float(row[metric]) for row in arms.table if row.get(metric) is not None), 0.0)


def _at_one_rate(arms: AdaptArms, other: str, rate: float) -> Claim:
    reported = Reported(None, COURSE, comparable=False, note="near 50 %")
    return judge(
        f"{other}-behind-at-one-rate",
        f"At learning rate {rate_text(rate)} for both, {NAMES[other]} is behind AdamW",
        arms.dev_gap_at_rate("adamw", other, rate),
        above=0.0,
        quantity=f"dev accuracy at {rate_text(rate)}, adamw − {other}",
        reported=reported if other == "sgd" else None,
        trials=arms.ids("adamw", other),
        comparison=True,
    )


def _at_own_rate(arms: AdaptArms, other: str) -> Claim:
    return arms.accuracy_difference(
        f"{other}-behind-at-its-own",
        f"With learning rates chosen on dev, {NAMES[other]} is behind AdamW",
        "adamw",
        other,
        above=0.0,
    )


def _gap_shrinks(arms: AdaptArms, other: str, rate: float) -> Claim:
    """How far behind on dev at one rate, minus how far behind on test at its own rate."""
    gaps = arms.dev_gap_at_rate("adamw", other, rate), arms.accuracy_gap("adamw", other)
    return judge(
        f"{other}-gains-by-its-own",
        f"With learning rates chosen on dev, {NAMES[other]} is less far behind AdamW than at "
        f"{rate_text(rate)} for both",
        difference_of_estimates(*gaps),
        above=0.0,
        quantity=f"accuracy, adamw − {other}: at {rate_text(rate)} (dev) − each at its own (test)",
        trials=arms.ids("adamw", other),
        comparison=True,
    )


def _adagrad_generalises(arms: AdaptArms, rate: float) -> list[Claim]:
    """The report's two observations, at the end of the training at one learning rate."""
    rest: dict[str, Any] = {
        "above": 0.0,
        "reported": Reported(None, COURSE, comparable=False, note="read off its curves"),
        "trials": arms.ids("adamw", "adagrad"),
        "comparison": True,
    }
    at = rate_text(rate)
    return [
        judge(
            "adagrad-ends-more-accurate",
            f"At learning rate {at} for both, Adagrad ends with a higher dev accuracy than AdamW",
            arms.dev_gap_at_rate("adagrad", "adamw", rate, "last_dev_accuracy"),
            quantity=f"dev accuracy of the last epoch at {at}, adagrad − adamw",
            **rest,
        ),
        judge(
            "adagrad-ends-with-lower-loss",
            f"At learning rate {at} for both, Adagrad ends with a lower dev loss than AdamW",
            arms.last_gap("adamw", "adagrad", rate, "dev_loss"),
            quantity=f"dev loss of the last epoch at {at}, adamw − adagrad",
            **rest,
        ),
    ]
