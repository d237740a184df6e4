"""Fine-tuning all of an encoder: a search by dev, test once, curves, sizes, and a collapse."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, StudySettings
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Trial
from attnlab.studies.adapting.settings import FINE_TUNING, FineTuningSettings
from attnlab.studies.adapting.study import AdaptStudy

CONSTANT = 0.95  # of the predictions one class: the audit's own threshold


class FineTuning(AdaptStudy):
    """Reported: RoBERTa-base on SST-2, 94.8 % test; on BoolQ 0.6217125 in four runs, collapsed."""

    name = "fine-tuning"
    question = "How well does a fine-tuned encoder classify, and who chose the number reported?"
    source = (
        "Course reports: RoBERTa-base on SST-2, a grid of 18 cells, 95.9 / 93.2 / 94.8 % train / "
        "validation / test; on BoolQ validation 0.6217125 at four rates, the share of 'yes'"
    )
    Settings: ClassVar[type[StudySettings]] = FineTuningSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = FINE_TUNING
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "about 11 minutes on two cores",
        "full": "7 minutes on one H200 (--device cuda --workers 14)",
    }
    settings: FineTuningSettings

    def trials(self) -> Sequence[Trial]:
        """The searches first, each the longest; then the long, the collapsing, the small ones."""
        sizes = sorted(self.settings.sizes, reverse=True)
        return [
            *self._search(),
            *(self._long() if self.settings.long_epochs else []),
            *self._collapsing(),
            *(trial for rows in sizes for trial in self._size(rows)),
        ]

    def _search(self) -> list[Trial]:
        s = self.settings
        return self._seeds(
            kind="search",
            arm="search",
            part="search",
            search=s.search,
            rates=list(s.rates),
            batches=list(s.batches),
            all_epochs=list(s.epochs),
            **s.base(method="full", optimizer=s.optimizer),
        )

    def _seeds(self, **config: Any) -> list[Trial]:
        return [self.trial(seed, **config) for seed in range(self.settings.seeds)]

    def _steady(self, **changed: Any) -> dict[str, Any]:
        s = self.settings
        return s.base(
            method="full",
            optimizer=s.optimizer,
            learning_rate=s.steady_rate,
            batch=s.steady_batch,
            **changed,
        )

    def _long(self) -> list[Trial]:
        own = self._steady(epochs=float(self.settings.long_epochs), evaluations=1)
        return self._seeds(kind="long", arm="long", part="long", with_train=True, **own)

    def _size(self, rows: int) -> list[Trial]:
        own = self._steady(epochs=self.settings.size_epochs, rows=rows)
        return self._seeds(kind="size", arm=f"{rows} rows", part="sizes", **own)

    def _collapsing(self) -> list[Trial]:
        s = self.settings
        if not s.collapse_data:
            return []
        base = s.base(
            method="full",
            optimizer=s.optimizer,
            batch=s.steady_batch,
            epochs=s.collapse_epochs,
            data=s.collapse_data,
            data_sha256="",
            rows=s.collapse_rows,
            scored=s.collapse_scored,
            tested=s.collapse_scored,
            longest=s.collapse_longest,
        )
        return [
            self.trial(
                seed,
                kind="collapse",
                arm=f"rate {rate:g}",
                part="collapse",
                **base | {"learning_rate": rate},
            )
            for rate in (*s.collapse_rates, s.sane_rate)
            for seed in range(s.collapse_seeds)
        ]

    def claims(self, table: Table) -> list[Claim]:
        """The chosen cell on the test rows, dev against test, epochs, sizes, the collapse."""
        from attnlab.studies.adapting.evidence import Runs
        from attnlab.studies.adapting.fine_tuning_claims import claims

        return claims(Runs(table.done()), self.settings)

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """What answers as a constant must be found to; the test rows must be enough."""
        from attnlab.studies.adapting.checks import enough_rows, findings
        from attnlab.studies.adapting.evidence import Runs

        claims, runs = self.claims(table), Runs(table.done())
        effect = runs.mean("accuracy", kind="search") - runs.mean("majority", kind="search")
        return [
            *findings(table.done(), claims, _declared),
            enough_rows({"chosen by dev": runs.rows(kind="search")}, effect),
        ]

    def figures(self, table: Table) -> list[Figure]:
        """The search, the epochs, the sizes, the collapse."""
        from attnlab.studies.adapting.evidence import Runs
        from attnlab.studies.adapting.fine_tuning_figures import figures

        return figures(Runs(table.done()), self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """The test accuracy of what dev chose, then the collapse."""
        from attnlab.studies.adapting.fine_tuning_claims import answer

        return answer(claims)

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """The search, beside what was reported, the collapse."""
        from attnlab.studies.adapting.evidence import Runs
        from attnlab.studies.adapting.fine_tuning_discussion import sections

        return sections(Runs(table.done()), {c.name: c for c in claims}, self.settings)


def _declared(row: Row, name: str) -> bool | None:
    """Of the rates that are tried to collapse, whatever says one thing must be found to."""
    if name != "collapse" or row.get("kind") != "collapse":
        return False
    return True if row["whole_top_share"] > CONSTANT else None
