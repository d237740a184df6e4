"""How much of an encoder must learn: all, the head, prefixes, LoRA; and what pretraining gives."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import MIN_SEEDS, Claim
from attnlab.lab.study import Figure, Section, StudySettings
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Trial
from attnlab.products.finetune.settings import RATES
from attnlab.studies.adapting.settings import ADAPTER, AdapterSettings
from attnlab.studies.adapting.study import AdaptStudy


class Adapters(AdaptStudy):
    """Reported: full 0.9, head 0.6, prefix 0.8, validation and test equal: ten examples each."""

    name = "adapters"
    question = "How much of a pretrained encoder must learn, and what is pretraining worth?"
    source = (
        "A course report: full fine-tuning 0.9, head only 0.6, prefix of length 128 0.8, "
        "validation and test equal (consistent with ten examples)"
    )
    Settings: ClassVar[type[StudySettings]] = AdapterSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = ADAPTER
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "about 17 minutes on two cores; the second task on a subset: not a result",
        "full": "9 minutes on one H200 (--device cuda --workers 14)",
    }
    settings: AdapterSettings

    def trials(self) -> Sequence[Trial]:
        """Each task with each method and each further encoder; the second task first."""
        s, found = self.settings, []
        if s.pair_data:
            pair = s.base(
                data=s.pair_data,
                data_sha256="",
                rows=s.pair_rows,
                scored=s.pair_scored,
                tested=s.pair_scored,
                longest=s.pair_longest,
            )
            found += self._task("pairs", pair, s.pair_epochs, s.pair_seeds)
        return found + self._task("texts", s.base(), s.epochs, s.seeds)

    def _task(self, task: str, base: dict[str, Any], epochs: float, seeds: int) -> list[Trial]:
        s = self.settings
        arms = {
            method: {"method": method, "prefix_length": s.prefix_length, "rank": s.rank}
            for method in sorted(s.methods, key=lambda name: not name.startswith("prefix"))
        }
        for name in s.encoders:
            other = {"init": "random"} if name == "random" else {"model": name, "model_sha256": ""}
            arms[f"full, {name}"] = {"method": "full", **other}
        return [
            self.trial(
                seed,
                kind="search",
                task=task,
                arm=arm,
                part=f"{task}: {arm}",
                search="grid",
                rates=[float(f"{factor * RATES[own['method']]:.3g}") for factor in s.factors],
                batches=[s.batch],
                all_epochs=[epochs],
                **base | own,
            )
            for arm, own in arms.items()
            for seed in range(seeds)
        ]

    def claims(self, table: Table) -> list[Claim]:
        """Methods against full, on each task; pretrained against random."""
        from attnlab.studies.adapting.adapter_claims import claims
        from attnlab.studies.adapting.evidence import Runs

        return claims(Runs(table.done()), self.settings)

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Every model; the comparisons; the test rows against a difference of five points."""
        from attnlab.studies.adapting.adapter_claims import NEAR
        from attnlab.studies.adapting.checks import enough_rows, findings
        from attnlab.studies.adapting.evidence import Runs

        claims, runs = self.claims(table), Runs(table.done())
        arms = {
            f"{task}: {arm}": runs.rows(task=task, arm=arm)
            for task in self._concluded()
            for arm in self.settings.methods
        }
        return [*findings(table.done(), claims, _declared), enough_rows(arms, NEAR)]

    def _concluded(self) -> list[str]:
        """Tasks with seeds enough to conclude anything from."""
        s = self.settings
        seeds = {"texts": s.seeds, "pairs": s.pair_seeds if s.pair_data else 0}
        return [task for task, number in seeds.items() if number >= MIN_SEEDS]

    def figures(self, table: Table) -> list[Figure]:
        """Accuracy against what learns; time and memory."""
        from attnlab.studies.adapting.adapter_figures import figures
        from attnlab.studies.adapting.evidence import Runs

        return figures(Runs(table.done()), self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """LoRA against full, and pretraining."""
        from attnlab.studies.adapting.adapter_claims import answer
        from attnlab.studies.adapting.checks import first_line

        return answer(claims) or first_line(claims, super().answer(claims))

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """Every method with its numbers, pretraining, the published numbers."""
        from attnlab.studies.adapting.adapter_claims import sections
        from attnlab.studies.adapting.evidence import Runs

        return sections(Runs(table.done()), self.settings)


def _declared(row: Row, name: str) -> bool | None:
    """A method that learns nothing is told, not refused: that is what is asked here."""
    return None if name in ("collapse", "baselines") else False
