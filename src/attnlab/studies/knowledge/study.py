"""The study itself: the question, its trials, and who answers which part of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.knowledge.arms import changes
from attnlab.studies.knowledge.claims import claims
from attnlab.studies.knowledge.evidence import Arms
from attnlab.studies.knowledge.settings import FILES, FULL, SMOKE, KnowledgeSettings, files_sha256

NOT_OF_A_TRIAL = ("seeds", "arms", "trial_seconds", "trial_memory_gb")
# what a model that reads nothing does not depend on: its trial is the same whatever they are
OF_READING = (
    "pretrain_steps",
    "finetune_steps",
    "finetune_rate",
    "whole",
    "closed",
    "scored",
    "mix",
    "latents",
)


class Knowledge(Study):
    """Reported: 2.0 % without pretraining, 18.6 % pretrained, 5.0 % the Perceiver."""

    name = "knowledge"
    question = "Does a model know what it has only read, and does it know what it does not know?"
    source = (
        "A course report: 'Where was X born?' by a character-level GPT, 2.0 % right without "
        "pretraining, 18.6 % after span corruption, 5.0 % with a Perceiver (always 'London': 5.0 %)"
    )
    Settings: ClassVar[type[StudySettings]] = KnowledgeSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"smoke": SMOKE, "full": FULL}
    expected: ClassVar = {
        "smoke": "about a minute on two cores",
        "quick": "about 12 minutes on two cores",
        "full": "7 minutes on an H200 (--device cuda --workers 14)",
    }
    shares_accelerator = True
    settings: KnowledgeSettings

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """With files, their hash becomes a setting, and arms that need people are left out."""
        if overrides.get("source") == "files":
            preset = cls.presets.get(scale, {})
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

    def trials(self) -> Sequence[Trial]:
        """Every arm with every seed, the long ones first."""
        own = self.settings_json()
        for key in NOT_OF_A_TRIAL:
            del own[key]
        without = {key: None for key in OF_READING}
        order = sorted(self.settings.arms, key=lambda arm: arm == "none")
        return [
            self.trial(
                seed, arm=arm, part=arm, **own | changes(arm) | (without if arm == "none" else {})
            )
            for arm in order
            for seed in range(self.settings.seeds)
        ]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Read, be asked, answer."""
        from attnlab.studies.knowledge.work import work

        return work(trial, context)

    def claims(self, table: Table) -> list[Claim]:
        """Knowledge, its limits, and whether the model is sure of what it knows."""
        return claims(Arms(table.done()), self.settings)

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Baselines, blindness, schedules, collapse, splits, every model at its start and end."""
        from attnlab.studies.knowledge.checks import checks

        arms = Arms(table.done())
        return checks(arms, self.settings, claims(arms, self.settings))

    def figures(self, table: Table) -> list[Figure]:
        """Accuracy by arm, memorised against asked, calibration, abstaining, schedules."""
        from attnlab.studies.knowledge.figures import figures

        return figures(Arms(table.done()), self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """One sentence from the verdicts."""
        from attnlab.studies.knowledge.discussion import answer

        return answer(claims)

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """What it means, for someone who teaches it."""
        from attnlab.studies.knowledge.discussion import discussion

        return discussion(Arms(table.done()), claims, self.settings)
