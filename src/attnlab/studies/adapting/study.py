"""What the three studies share: their trials are trainings of one encoder on labelled texts."""

from collections.abc import Sequence
from typing import Any, ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.products.finetune.settings import data_sha256, model_sha256
from attnlab.studies.adapting.settings import AdaptSettings

MADE, TINY = ("made-up", "made-up pairs"), "tiny"
RANDOM = "random"


class AdaptStudy(Study):
    """Settings, data and encoder at hand, one trial after the other."""

    Settings: ClassVar[type[StudySettings]] = AdaptSettings
    shares_accelerator = True  # such encoders leave most of a GPU idle: --workers 12, say
    settings: Any

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The hashes of a folder's data and weights become settings: others, another run."""
        data, model = overrides.get("data"), overrides.get("model")
        if isinstance(data, str) and data not in MADE and not overrides.get("data_sha256"):
            overrides["data_sha256"] = data_sha256(data)
        if isinstance(model, str) and model != TINY and not overrides.get("model_sha256"):
            overrides["model_sha256"] = model_sha256(model)
        made = super().at(scale, **overrides)
        for name in getattr(made.settings, "encoders", ()):
            if name not in (RANDOM, TINY):
                model_sha256(name)  # a wrong name is told before torch is loaded
        return made

    def fetch(self) -> None:
        """Every set of data and the encoder must be there and fit before a run is begun."""
        from attnlab.core.seeds import Seed
        from attnlab.studies.adapting.material import material
        from attnlab.studies.adapting.work import settings_of
        from attnlab.train.tune import check_installed

        seen: dict[tuple[str, str], Trial] = {}
        for trial in self.trials():
            check_installed(trial.config["method"])
            seen.setdefault((trial.config["data"], trial.config["model"]), trial)
        for trial in seen.values():
            material(settings_of(trial.config), Seed(trial.seed), trial.config["tested"])

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Train; choose by dev; test once, if this trial is to be tested."""
        from attnlab.studies.adapting.work import work

        return work(trial, context)

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """What every trial said of itself, and the comparisons."""
        from attnlab.studies.adapting.checks import findings

        return findings(table.done(), self.claims(table))


def said(claim: Claim) -> str:
    """'holds (interval [1.2, 1.3] lies inside …)'."""
    return f"{claim.verdict} ({claim.why})"
