"""AdamW, SGD without and with momentum, Adagrad: each at its own learning rate, and all at one."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from attnlab.audit.checks.grid_edge import grid_edge
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim, Reported, judge, judge_difference
from attnlab.lab.study import StudySettings, deferred, setting
from attnlab.lab.trial import Trial
from attnlab.studies.adapting.evidence import (
    AdaptArms,
    difference_of_estimates,
    enough_test_rows,
    no_collapse,
)
from attnlab.studies.adapting.study import AdaptSettings, AdaptStudy, Rates, rate_text, rates_text

NAMES = {"adamw": "AdamW", "sgd": "SGD", "momentum": "SGD with momentum", "adagrad": "Adagrad"}
OPTIMIZERS = tuple(NAMES)
COURSE = "course report: RoBERTa-base on SST-2, one rate for all, one run"
REPORTED_GAP = 0.43  # of validation accuracies: 93 % (Adagrad) − "around 50 %" (SGD)


class OptimizerSettings(AdaptSettings):
    """Learning rates for each optimizer, and one for all."""

    optimizers: tuple[Literal["adamw", "sgd", "momentum", "adagrad"], ...] = setting(
        "optimizers to compare; momentum: SGD with momentum",
        ("adamw", "sgd", "adagrad"),
        smoke=OPTIMIZERS,
        full=OPTIMIZERS,
        min_length=1,
    )
    common_rate: float = setting("learning rate at which all are compared", 5e-5, smoke=1e-4, gt=0)
    # the same number for every optimizer: a search with more cells finds more
    adamw_rates: Rates = setting(
        "further learning rates of AdamW", (2e-4,), smoke=(0.01,), full=(2e-5, 1e-4, 2e-4)
    )
    sgd_rates: Rates = setting(
        "further learning rates of SGD", (0.1,), smoke=(0.3,), full=(0.01, 0.03, 0.1)
    )
    momentum_rates: Rates = setting(
        "further learning rates of SGD with momentum",
        (0.01,),
        smoke=(0.1,),
        full=(1e-3, 3e-3, 0.01),
    )
    adagrad_rates: Rates = setting(
        "further learning rates of Adagrad", (5e-4,), smoke=(0.1,), full=(2e-4, 5e-4, 1e-3)
    )
    momentum: float = setting("momentum of SGD with momentum", 0.9, gt=0, lt=1)
    batch: int = setting("batch size in rows", 8, smoke=16, full=64, ge=1)
    epochs: float = setting("training epochs", 2.0, full=10.0, gt=0)

    def rates(self, optimizer: str) -> list[float]:
        """The learning rates of an optimizer, the common one among them, in increasing order."""
        return sorted({self.common_rate, *getattr(self, f"{optimizer}_rates")})


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

    figures = deferred(".figures:optimizer_figures")

    def trials(self) -> Sequence[Trial]:
        """A search over the learning rates of each optimizer; the common one is among them."""
        s, configs = self.settings, []
        for name in s.optimizers:
            momentum = name == "momentum"
            training = s.base(
                method="full",
                optimizer="sgd" if momentum else name,
                momentum=s.momentum if momentum else 0.0,
            )
            search = s.search_config(s.rates(name), [s.batch], [s.epochs])
            configs.append({"arm": name, "part": name, **search, **training})
        return [self.trial(seed, **config) for seed in range(s.seeds) for config in configs]

    def labels(self) -> Mapping[str, str]:
        """Every optimizer is an arm."""
        return {name: NAMES[name] for name in self.settings.optimizers}

    def claims(self, arms: AdaptArms) -> Sequence[Claim]:
        """AdamW against each of the others: at the common learning rate, and each at its own."""
        chosen, rate = self.settings.optimizers, self.settings.common_rate
        others = [name for name in chosen if name != "adamw"] if "adamw" in chosen else []
        return [
            *(claim for name in others for claim in _behind_adamw(arms, name, rate)),
            *(_adagrad_generalises(arms, rate) if "adagrad" in others else []),
            no_collapse({arms.label(name): arms.rows(name) for name in arms.names()}),
        ]

    def audits(self, arms: AdaptArms, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Did dev choose an end of a grid? Could the test rows show a gap like the reported one?"""
        rows = {arms.label(name): arms.rows(name) for name in arms.names()}
        at_own = [claim for claim in claims if claim.name.endswith("-its-own")]
        choices = [c for name in arms.names() for c in arms.choices(name, f"{name}_rates", at_own)]
        return [grid_edge(choices), enough_test_rows(rows, REPORTED_GAP)]

    def facts(self, arms: AdaptArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """The trainings at the common learning rate; how rates and optimizers are written."""
        rate = self.settings.common_rate
        return {
            "rates": rates_text,
            "at_common": arms.at_rate(rate),
            "common_rate": rate_text(rate),
            "names": NAMES,
        }


def _behind_adamw(arms: AdaptArms, other: str, rate: float) -> list[Claim]:
    """Behind AdamW on dev at one learning rate, on test at its own, and less so there."""
    at, trials = rate_text(rate), arms.ids("adamw", other)
    reported = Reported(None, COURSE, comparable=False, note="near 50 %")
    at_one = arms.at_rate(rate).difference(
        f"{other}-behind-at-one-rate",
        f"At learning rate {at} for both, {NAMES[other]} is behind AdamW",
        ("adamw", "dev_accuracy"),
        (other, "dev_accuracy"),
        above=0.0,
        quantity=f"dev accuracy at {at}, adamw − {other}",
        reported=reported if other == "sgd" else None,
        trials=trials,
    )
    at_own = arms.accuracy_difference(
        f"{other}-behind-at-its-own",
        f"With learning rates chosen on dev, {NAMES[other]} is behind AdamW",
        "adamw",
        other,
    )
    gains = judge(
        f"{other}-gains-by-its-own",
        f"With learning rates chosen on dev, {NAMES[other]} is less far behind AdamW than at "
        f"{at} for both",
        difference_of_estimates(at_one.estimate, at_own.estimate),
        above=0.0,
        quantity=f"accuracy, adamw − {other}: at {at} (dev) − each at its own (test)",
        trials=trials,
        comparison=True,
    )
    return [at_one, at_own, gains]


def _adagrad_generalises(arms: AdaptArms, rate: float) -> list[Claim]:
    """The report's two observations, at the end of the training at one learning rate."""
    common, at = arms.at_rate(rate), rate_text(rate)
    rest: dict[str, Any] = {
        "above": 0.0,
        "reported": Reported(None, COURSE, comparable=False, note="read off its curves"),
        "trials": arms.ids("adamw", "adagrad"),
    }
    return [
        common.difference(
            "adagrad-ends-more-accurate",
            f"At learning rate {at} for both, Adagrad ends with a higher dev accuracy than AdamW",
            ("adagrad", "last_dev_accuracy"),
            ("adamw", "last_dev_accuracy"),
            quantity=f"dev accuracy of the last epoch at {at}, adagrad − adamw",
            **rest,
        ),
        judge_difference(
            "adagrad-ends-with-lower-loss",
            f"At learning rate {at} for both, Adagrad ends with a lower dev loss than AdamW",
            common.last_gaps("adamw", "adagrad", "dev_loss"),
            quantity=f"dev loss of the last epoch at {at}, adamw − adagrad",
            **rest,
        ),
    ]
