"""AdamW, SGD without and with momentum, Adagrad: each at its own rate, and all at one."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.study import Figure, Section, StudySettings
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import mean_interval
from attnlab.studies.adapting.checks import alive, enough_rows, findings, first_line
from attnlab.studies.adapting.settings import NAMES, OPTIMIZER, OptimizerSettings, rate_text
from attnlab.studies.adapting.study import AdaptStudy

LEVEL = 0.05  # closer than this, two optimizers count as level
COURSE = "course report: RoBERTa-base on SST-2, one rate for all, one run"


class Optimizers(AdaptStudy):
    """Reported: SGD stays near 50 % where the others learn, at one learning rate for all."""

    name = "optimizers"
    question = "Is SGD worse than AdamW at fine-tuning, or was it given the wrong learning rate?"
    source = "A course report: four optimizers at one learning rate, SGD near 50 %"
    Settings: ClassVar[type[StudySettings]] = OptimizerSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = OPTIMIZER
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "about 14 minutes on two cores",
        "full": "5 minutes on one H200 (--device cuda --workers 14)",
    }
    settings: OptimizerSettings

    def trials(self) -> Sequence[Trial]:
        """A search over its own rates for each optimizer; the common rate is among them."""
        s = self.settings
        own = {
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
                kind="search",
                arm=name,
                part=name,
                search="grid",
                rates=s.rates(name),
                batches=[s.batch],
                all_epochs=[s.epochs],
                **own[name],
            )
            for seed in range(s.seeds)
            for name in s.optimizers
        ]

    def claims(self, table: Table) -> list[Claim]:
        """AdamW against each of the others: at the common rate, and each at its own."""
        from attnlab.studies.adapting.evidence import Runs

        runs, found = Runs(table.done()), []
        for other in self.settings.optimizers:
            if other != "adamw" and runs.rows(arm=other) and runs.rows(arm="adamw"):
                found += [self._unfair(runs, other), self._fair(runs, other)]
        return [*found, alive(runs.rows(), lambda row: NAMES[row["arm"]])] if found else []

    def _unfair(self, runs: Any, other: str) -> Claim:
        rate = self.settings.common_rate
        ours, theirs = (runs.at_rate(rate, arm=name) for name in ("adamw", other))
        gaps = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
        return judge(
            f"{other}-behind-at-one-rate",
            f"At {rate_text(rate)} for both, {NAMES[other]} is behind AdamW",
            mean_interval(gaps),
            above=0.0,
            quantity=f"dev accuracy at {rate_text(rate)}, adamw − {other}",
            reported=Reported(None, COURSE, comparable=False, note="near 50 %")
            if other == "sgd"
            else None,
            trials=[*runs.ids(arm="adamw"), *runs.ids(arm=other)],
            runs=gaps,
        )

    def _fair(self, runs: Any, other: str) -> Claim:
        gap = runs.test_gap({"arm": "adamw"}, {"arm": other})
        return judge(
            f"{other}-level-at-its-own",
            f"Each at the rate dev chose, {NAMES[other]} comes within five points of AdamW",
            gap,
            below=LEVEL,
            quantity=f"test accuracy, adamw − {other}",
            trials=[*runs.ids(arm="adamw"), *runs.ids(arm=other)],
        )

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Every model; the comparisons; the test rows against the differences."""
        from attnlab.studies.adapting.evidence import Runs

        claims, runs = self.claims(table), Runs(table.done())
        rows = {name: runs.rows(arm=name) for name in self.settings.optimizers}
        return [*findings(table.done(), claims, _declared), enough_rows(rows, LEVEL)]

    def figures(self, table: Table) -> list[Figure]:
        """Dev accuracy against the rate; one rate beside its own."""
        from attnlab.studies.adapting.evidence import Runs
        from attnlab.studies.adapting.optimizer_figures import figures

        return figures(Runs(table.done()), self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """SGD at one rate, then at its own."""
        found = {c.name: c for c in claims}
        one, own = found.get("sgd-behind-at-one-rate"), found.get("sgd-level-at-its-own")
        if one is None or own is None or not math.isfinite(own.estimate.value):
            return first_line(claims, super().answer(claims))
        rate = rate_text(self.settings.common_rate)
        first = f"at {rate} for both SGD is {_points(one)} behind AdamW"
        second = f"each at its own rate {_points(own)}"
        word = {
            ("holds", "holds"): "It was given the wrong rate",
            ("holds", "fails"): "Worse even at its own rate",
        }.get((one.verdict, own.verdict), "Not settled")
        return first_line(claims, f"{word}: {first}, {second}.")

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """Every optimizer at both rates, and why their rates differ."""
        from attnlab.studies.adapting.evidence import Runs
        from attnlab.studies.adapting.optimizer_figures import sections

        return sections(Runs(table.done()), self.settings)


def _points(claim: Claim) -> str:
    e = claim.estimate
    interval = f" [{100 * e.low:.1f}, {100 * e.high:.1f}]" if e.has_interval else ""
    return f"{100 * e.value:.1f}{interval} points".replace("-", "−")


def _declared(row: Row, name: str) -> bool | None:
    """An optimizer that learns nothing at any of its rates is told, not refused."""
    return None if name in ("collapse", "baselines") else False
