"""What the three studies share: trials that train one encoder on labelled texts."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Study, StudySettings, deferred
from attnlab.lab.table import Row
from attnlab.products.finetune.settings import data_sha256, model_sha256
from attnlab.studies.adapting.evidence import AdaptArms
from attnlab.studies.adapting.settings import AdaptSettings, rate_text

MADE_UP, TINY = ("made-up", "made-up pairs"), "tiny"
RANDOM = "random"


class AdaptStudy(Study):
    """A study whose trials are searches or single trainings of a classifier."""

    Settings: ClassVar[type[StudySettings]] = AdaptSettings
    settings: Any
    shares_accelerator = True  # such encoders leave most of a GPU idle: --workers 12, say

    fetch = deferred(".trial:check_tasks")
    run = deferred(".trial:run")

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The hashes of data and weights become settings, so that other files are another run."""
        data, model = overrides.get("data"), overrides.get("model")
        if isinstance(data, str) and data not in MADE_UP and not overrides.get("data_sha256"):
            overrides["data_sha256"] = data_sha256(data)
        if isinstance(model, str) and model != TINY and not overrides.get("model_sha256"):
            overrides["model_sha256"] = model_sha256(model)
        study = super().at(scale, **overrides)
        for name in getattr(study.settings, "encoders", ()):
            if name not in (RANDOM, TINY):
                model_sha256(name)  # a wrong name is reported before torch is loaded
        return study

    def facts(self, arms: AdaptArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """How learning rates are written."""
        return {"rates": lambda rates: ", ".join(rate_text(rate) for rate in rates)}


def enough_test_rows(arms: Mapping[str, Sequence[Row]], effect: float) -> Finding:
    """`small-sample`: are there enough test rows for the difference that is claimed?

    All seeds are tested on the same rows, so the rows count once.
    """
    counts = {
        name: (round(sum(int(r["right"]) for r in rows) / len(rows)), int(rows[0]["tested"]))
        for name, rows in arms.items()
        if rows
    }
    return small_sample(counts, effect)
