"""What a character-level GPT knows of facts that it has only read in its pretraining text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from attnlab.lab.arms import ArmStudy
from attnlab.lab.study import Study, StudySettings, deferred
from attnlab.lab.table import Table
from attnlab.studies.knowledge.arms import LABELS, changes
from attnlab.studies.knowledge.evidence import KnowledgeArms
from attnlab.studies.knowledge.settings import FILES, KnowledgeSettings, files_sha256

# settings that a model without pretraining does not depend on
OF_PRETRAINING = (
    "pretrain_steps",
    "finetune_steps",
    "finetune_rate",
    "whole",
    "closed",
    "scored",
    "mix",
    "latents",
)


class Knowledge(ArmStudy):
    """Reported: 2.0 % without pretraining, 18.6 % pretrained, 5.0 % the Perceiver."""

    name = "knowledge"
    question = "Does a model know what it has only read, and does it know what it does not know?"
    source = (
        "A course report: 'Where was X born?' by a character-level GPT, 2.0 % right without "
        "pretraining, 18.6 % after span corruption, 5.0 % with a Perceiver (always 'London': 5.0 %)"
    )
    arms: ClassVar = LABELS
    Settings: ClassVar[type[StudySettings]] = KnowledgeSettings
    settings: KnowledgeSettings
    expected: ClassVar = {
        "smoke": "about a minute on two cores",
        "quick": "about 12 minutes on two cores",
        "full": "7 minutes on an H200 (--device cuda --workers 14)",
    }
    shares_accelerator = True
    not_of_a_trial: ClassVar = ("arms",)
    must_fail: ClassVar = {"coverage": ("perceiver-course",)}
    # a model without knowledge may well answer as a constant would
    may_fail: ClassVar = {"collapse": tuple(arm for arm in LABELS if arm != "pretrained")}
    template = "report.md"

    run = deferred(".trial:run")
    claims = deferred(".claims:claims")
    audits = deferred(".checks:audits")
    figures = deferred(".figures:figures")
    facts = deferred(".facts:facts")

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """With files, their hash becomes a setting, and arms that need people are left out."""
        if overrides.get("source") == "files":
            preset = cls.preset(scale)
            if "arms" in preset and "arms" not in overrides:
                overrides["arms"] = [arm for arm in preset["arms"] if arm != "one-phrasing"]
            paths = [str(overrides.get(name) or "") for name in FILES]
            if all(paths) and not overrides.get("files_sha256"):
                overrides["files_sha256"] = files_sha256(*map(Path, paths))
        return super().at(scale, **overrides)

    def fetch(self) -> None:
        """The people, or the files, must be there and fit before a run is begun."""
        from attnlab.studies.knowledge.data import check_block, material

        config = self.settings_json()
        check_block(config, material(config, 0))

    def chosen_arms(self) -> Sequence[str]:
        """The arms of the settings, the slow ones first."""
        return sorted(self.settings.arms, key=lambda arm: arm == "none")

    def arm_settings(self, arm: str) -> Mapping[str, Any]:
        """What the arm changes; without pretraining its settings do not matter."""
        return changes(arm) | (dict.fromkeys(OF_PRETRAINING) if arm == "none" else {})

    def evidence(self, table: Table) -> KnowledgeArms:
        """The trials by arm."""
        return KnowledgeArms(table, self.arms)
