"""What a character-level GPT knows of facts that it has only read in its pretraining text."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_files
from attnlab.lab.arms import ArmStudy
from attnlab.lab.study import Study, StudySettings, deferred, setting
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial
from attnlab.studies.knowledge.arms import BLIND, LABELS, READS, KnowledgeArms, changes, shares_of

GPTArm = Literal["none", "pretrained", "one-phrasing", "rotary", "course-schedule"]
PerceiverArm = Literal[
    "perceiver-course", "perceiver-wide-6", "perceiver-weights-6", "perceiver-local"
]
Arm = Literal[GPTArm, PerceiverArm]
Rate = Annotated[float, Field(gt=0)]
QUICK: tuple[Arm, ...] = ("none", "pretrained")
FILES = ("pretrain_text", "train", "dev")
# the files behind the reported numbers (files_sha256): ours on them can be compared with those
COURSE_FILES = "e08c0f0bbdd7b8dde1170b9d98e0cf190d103bec4465fb348978fac6899ab7b5"
# settings that a model without pretraining does not depend on
OF_PRETRAINING = ("pretrain_steps", "whole", "closed", "scored", "mix")
AFTER_PRETRAINING = ("finetune_steps", "finetune_rate")
OF_PERCEIVERS = ("latents", "perceiver_rates", "search_steps")  # no GPT depends on these


class KnowledgeSettings(StudySettings):
    """A world of people, a small model, and two trainings: reading, then being asked."""

    seeds: int = setting(
        "models per arm; each has its own people, unless from files", 5, smoke=3, ge=1
    )
    arms: tuple[Arm, ...] = setting(
        "the arms to run",
        QUICK,
        smoke=("none", "pretrained", "perceiver-course", "perceiver-local", "course-schedule"),
        full=list(LABELS),
        min_length=1,
    )

    source: Literal["people", "files"] = setting(
        "real people (an asset), or the files of a course", "people"
    )
    pretrain_text: str = setting("files: the text to pretrain on, one document per line", "")
    train: str = setting("files: fine-tuning questions, lines of question TAB place", "")
    dev: str = setting("files: test questions, lines of question TAB place", "")
    files_sha256: str = setting(
        "hash of the three files, filled in automatically: other files make another run", ""
    )
    people: int = setting(
        "people in the text; half of them are asked about in fine-tuning",
        100,
        smoke=24,
        full=2000,
        ge=2,
    )
    places: int = setting(
        "use only the people of this many commonest places; 0: all", 8, smoke=3, full=0, ge=0
    )
    phrasings: int = setting("different sentences about each person", 8, smoke=3, ge=1)
    unread: int = setting("real people who are not in the text", 50, smoke=7, full=500, ge=0)
    invented: int = setting("names that nobody has", 50, smoke=7, full=500, ge=0)
    crossed: int = setting(
        "number of first names and of surnames that are combined to test whether the "
        "surname decides what is made up; 0: no test",
        8,
        smoke=3,
        full=20,
        ge=0,
    )

    layers: int = setting(
        "layers of the model, both projections of a Perceiver included", 3, full=4, ge=1
    )
    heads: int = setting("attention heads per layer", 4, smoke=2, full=8, ge=1)
    width: int = setting("model width", 64, smoke=16, full=256, ge=2)
    block: int = setting("context length, in characters", 80, full=128, ge=16)
    latents: int = setting("latents of the Perceiver", 10, full=32, ge=1)
    min_count: int = setting("rarer characters become the unknown character", 1, ge=1)

    whole: float = setting(
        "share of the documents that are not cut shorter before a span is masked; the course: 0",
        0.5,
        ge=0,
        le=1,
    )
    closed: bool = setting("a third ⁇ ends the span, as it ends an answer; the course: false", True)
    scored: Literal["all", "span"] = setting("characters that count in the pretraining loss", "all")
    mix: float = setting(
        "share of pretraining rows that are fine-tuning questions", 0.0, ge=0, lt=1
    )

    pretrain_steps: int = setting("training steps of pretraining", 2000, smoke=12, full=5000, ge=1)
    perceiver_steps: int = setting(
        "training steps of pretraining of a Perceiver", 2000, smoke=12, full=5000, ge=1
    )
    finetune_steps: int = setting(
        "training steps of fine-tuning after pretraining", 100, smoke=6, full=600, ge=1
    )
    alone_steps: int = setting(
        "training steps of fine-tuning without pretraining", 300, smoke=6, full=1200, ge=1
    )
    batch: int = setting("batch size", 32, smoke=8, full=128, ge=2)
    learning_rate: float = setting(
        "peak learning rate of a GPT's pretraining, or of fine-tuning alone", 3e-3, gt=0
    )
    perceiver_rates: tuple[Rate, ...] = setting(
        "peak learning rates of pretraining that each Perceiver tries; while the best is the "
        "smallest or largest, further ones are tried; a single one is used as it is",
        (1e-3, 3e-3),
        min_length=1,
    )
    search_steps: int = setting(
        "training steps of pretraining at each of these rates; the loss after them decides; fewer "
        "steps than half of perceiver_steps favour rates that are too large",
        1000,
        smoke=3,
        full=2500,
        ge=1,
    )
    finetune_rate: float = setting(
        "peak learning rate of fine-tuning after pretraining", 1e-3, full=6e-4, gt=0
    )
    weight_decay: float = setting("weight decay of matrices", 0.1, ge=0)
    precision: Literal["float32", "bfloat16"] = setting(
        "bfloat16: autocast in training", "float32", full="bfloat16"
    )
    evaluations: int = setting("evaluations on test questions during training", 4, smoke=1, ge=1)
    watched: int = setting(
        "test questions of such an evaluation; nothing is chosen by it", 100, ge=1
    )
    answer_characters: int = setting("longest answer, in characters", 32, smoke=5, full=40, ge=1)
    asked_at_once: int = setting("questions per decoding batch", 64, full=256, ge=1)

    @property
    def of_the_course(self) -> bool:
        """Whether text and questions are those of the reported numbers."""
        return self.files_sha256 == COURSE_FILES

    @model_validator(mode="after")
    def _together(self) -> "KnowledgeSettings":
        given = [name for name in FILES if getattr(self, name)]
        if self.source == "files" and len(given) < len(FILES):
            missing = next(name for name in FILES if name not in given)
            raise ValueError(f"source 'files' needs pretrain_text, train and dev: no {missing}")
        if self.source == "people" and given:
            raise ValueError(f"{given[0]} is for source 'files'")
        if self.source == "files" and "one-phrasing" in self.arms:
            raise ValueError("the arm 'one-phrasing' writes its own text: for source 'people'")
        if len(set(self.arms)) != len(self.arms):
            raise ValueError("an arm is named twice")
        if len(set(self.perceiver_rates)) != len(self.perceiver_rates):
            raise ValueError("a learning rate is named twice")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be divided among {self.heads} heads")
        return self


class Knowledge(ArmStudy):
    """Reported: 2.0 % without pretraining, 18.6 % pretrained, 5.0 % the Perceiver."""

    name = "knowledge"
    version = 2
    question = "Does a model know what it has only read, and does it know what it does not know?"
    source = (
        "A course report: 'Where was X born?' by a character-level GPT, 2.0 % right without "
        "pretraining, 18.6 % after span corruption, 5.0 % with a Perceiver whose up-projection was "
        "scaled by 6 (always 'London': 5.0 %)"
    )
    arms: ClassVar = LABELS
    Settings: ClassVar[type[StudySettings]] = KnowledgeSettings
    settings: KnowledgeSettings
    expected: ClassVar = {
        "smoke": "about a minute on two cores",
        "quick": "about 5 minutes on two cores",
        "full": "about 15 minutes on an H200 (an estimate; --device cuda --workers 16)",
    }
    shares_accelerator = True
    not_of_a_trial: ClassVar = ("arms", "perceiver_steps")  # a Perceiver's are its pretrain_steps
    must_fail: ClassVar = {"coverage": BLIND}
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
        """The arms of the settings, the slow ones first; Perceivers search their rate."""
        return sorted(self.settings.arms, key=lambda arm: (arm == "none", arm not in READS))

    def trials(self) -> Sequence[Trial]:
        """Every seed with every arm, so that a run that is cut off has whole seeds."""
        return sorted(super().trials(), key=lambda trial: trial.seed)

    def arm_settings(self, arm: str) -> Mapping[str, Any]:
        """What the arm changes; without pretraining its settings do not matter."""
        ignored = [] if arm in READS else [*OF_PERCEIVERS]
        ignored += (*OF_PRETRAINING, *AFTER_PRETRAINING) if arm == "none" else ()
        own = {"pretrain_steps": self.settings.perceiver_steps} if arm in READS else {}
        return changes(arm) | own | dict.fromkeys(ignored)

    def evidence(self, table: Table) -> KnowledgeArms:
        """The trials by arm."""
        return KnowledgeArms(table, self.arms, shares=shares_of(self.settings.source))


def files_sha256(*paths: Path) -> str:
    """One hash over the hashes of the files; UsageError where one is not there."""
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
    return sha256_files(paths)
