"""What `attnlab finetune` runs: one set of labelled texts, one encoder, one method."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from attnlab.lab.claim import Claim, judge
from attnlab.lab.study import NOT_OF_A_TRIAL, Study, StudySettings, deferred
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import Estimate, wilson
from attnlab.products.finetune.settings import (
    FinetuneSettings,
    data_sha256,
    load_data,
    model_sha256,
)


class Finetune(Study):
    """An encoder fine-tuned on labelled texts."""

    name = "finetune"
    question = "What does this encoder learn from these labelled texts?"
    Settings: ClassVar[type[StudySettings]] = FinetuneSettings
    settings: FinetuneSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "smoke": {"rows": 24, "scored": 20, "epochs": 1.0, "batch": 8, "method": "head"},
        "full": {"seeds": 3, "epochs": 5.0},
    }
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "sentiment with method full: 10 minutes on one core",
        "full": "not measured",
    }
    template = "report.md"

    fetch = deferred(".trial:check_task")
    run = deferred(".trial:run")
    figures = deferred("attnlab.products.figures:of_classifiers")

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The hashes of data and weights become settings, so that other files are another run."""
        data, model = overrides.get("data", "sentiment"), overrides.get("model", "minilm-l6")
        if isinstance(data, str) and not overrides.get("data_sha256"):
            overrides["data_sha256"] = data_sha256(data)
        if isinstance(model, str) and not overrides.get("model_sha256"):
            overrides["model_sha256"] = model_sha256(model)
        study = super().at(scale, **overrides)
        assert isinstance(study.settings, FinetuneSettings)
        if study.settings.data_sha256:
            load_data(study.settings)  # an unreadable table is reported before torch is loaded
        return study

    def trials(self) -> Sequence[Trial]:
        """One trial per seed; where a hash identifies a file, its folder is left out."""
        skipped = NOT_OF_A_TRIAL | {"first_seed"}
        config = {key: value for key, value in self.settings_json().items() if key not in skipped}
        for key in ("data", "model"):
            config[key] = Path(config[key]).name if config[f"{key}_sha256"] else config[key]
        first = self.settings.first_seed
        return [self.trial(seed, **config) for seed in range(first, first + self.settings.seeds)]

    def claims(self, table: Table) -> Sequence[Claim]:
        """The worst of the seeds against the majority class; whether any model collapsed."""
        rows = [row for row in table if row.get("accuracy") is not None]
        worst = min(rows, key=lambda row: row["accuracy"], default=None)
        nothing = Estimate(math.nan, method="no model was trained")
        beats = judge(
            "beats-majority",
            "The classifier beats the majority class",
            wilson(worst["right"], worst["tested"]) if worst else nothing,
            above=worst["majority"] if worst else math.nan,
            quantity="test accuracy, the lowest of the seeds",
            trials=[worst.id] if worst else [],
        )
        return [beats, *([_no_collapse(rows)] if rows else [])]


def _no_collapse(rows: Sequence[Row]) -> Claim:
    reasons = [finding.why for row in rows if (finding := row.failure("collapse"))]
    return Claim(
        "no-collapse",
        "No model has collapsed to constant predictions",
        "fails" if reasons else "holds",
        Estimate(float(len(reasons)), n=len(rows), method="models that collapsed", exact=True),
        reasons[0] if reasons else f"none of {len(rows)} models collapsed",
        "models collapsed",
        trials=tuple(row.id for row in rows),
    )
