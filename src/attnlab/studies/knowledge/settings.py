"""What can be varied; the defaults are the quick scale."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_files
from attnlab.lab.study import StudySettings

Arm = Literal[
    "none",
    "pretrained",
    "one-phrasing",
    "perceiver-course",
    "perceiver-block",
    "perceiver-local",
    "rotary",
    "course-schedule",
    "embeddings-6",
]
QUICK: tuple[Arm, ...] = ("none", "pretrained")
FILES = ("pretrain_text", "train", "dev")


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class KnowledgeSettings(StudySettings):
    """A world of people, a small model, and two trainings: reading, then being asked."""

    seeds: int = about("worlds and models an arm", 5, ge=1)
    arms: tuple[Arm, ...] = about("which of the arms are run", QUICK, min_length=1)

    source: Literal["people", "files"] = about(
        "real people (an asset), or files of a course", "people"
    )
    pretrain_text: str = about("files: the text to pretrain on, one document a line", "")
    train: str = about("files: fine-tuning questions, lines of question TAB place", "")
    dev: str = about("files: test questions, lines of question TAB place", "")
    files_sha256: str = about("of the three, filled in: other files are another run", "")
    people: int = about(
        "people the text tells of; half of them are asked about in fine-tuning", 100, ge=2
    )
    places: int = about("only people of so many commonest places; 0: of all", 8, ge=0)
    phrasings: int = about("different sentences on each person", 8, ge=1)
    unread: int = about("real people the text does not tell of", 50, ge=0)
    invented: int = about("names that nobody has", 50, ge=0)
    crossed: int = about(
        "first names, and as many surnames, that are crossed to ask whether the "
        "surname decides what is made up; 0: not asked",
        8,
        ge=0,
    )

    layers: int = about("of the model, both projections of a Perceiver among them", 3, ge=1)
    heads: int = about("of each layer", 4, ge=1)
    width: int = about("of the model", 64, ge=2)
    block: int = about("longest row, in characters", 80, ge=16)
    latents: int = about("of the Perceiver", 10, ge=1)
    min_count: int = about("rarer characters of both trainings' texts are unknown ones", 1, ge=1)

    whole: float = about(
        "share of the documents that are not cut shorter before a span is masked; the course: 0",
        0.5,
        ge=0,
        le=1,
    )
    closed: bool = about("a third ⁇ ends the span, as it ends an answer; the course: false", True)
    scored: Literal["all", "span"] = about("characters the loss counts in pretraining", "all")
    mix: float = about("share of pretraining rows that are fine-tuning questions", 0.0, ge=0, lt=1)

    pretrain_steps: int = about("of reading", 2000, ge=1)
    finetune_steps: int = about("of being asked, after reading", 100, ge=1)
    alone_steps: int = about("of being asked, where nothing was read", 300, ge=1)
    batch: int = about("rows a step", 32, ge=2)
    learning_rate: float = about("peak of AdamW's step size while reading, or alone", 3e-3, gt=0)
    finetune_rate: float = about("peak while being asked after reading", 1e-3, gt=0)
    weight_decay: float = about("on matrices", 0.1, ge=0)
    precision: Literal["float32", "bfloat16"] = about("bfloat16: autocast in training", "float32")
    evaluations: int = about("times test questions are asked while training", 4, ge=1)
    watched: int = about("test questions asked then; nothing is chosen by them", 100, ge=1)
    answer_characters: int = about("longest answer", 32, ge=1)
    asked_at_once: int = about("questions answered in one batch", 64, ge=1)

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
        if self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be divided among {self.heads} heads")
        return self


SMOKE: dict[str, Any] = {
    "seeds": 3,
    "arms": ["none", "pretrained", "perceiver-course", "perceiver-local", "course-schedule"],
    "people": 24,
    "places": 3,
    "phrasings": 3,
    "unread": 7,
    "invented": 7,
    "layers": 3,
    "heads": 2,
    "width": 16,
    "pretrain_steps": 12,
    "finetune_steps": 6,
    "alone_steps": 6,
    "batch": 8,
    "evaluations": 1,
    "answer_characters": 5,
    "crossed": 3,
}
FULL: dict[str, Any] = {
    "seeds": 3,
    "arms": [
        "none",
        "pretrained",
        "one-phrasing",
        "perceiver-course",
        "perceiver-block",
        "perceiver-local",
        "rotary",
        "course-schedule",
        "embeddings-6",
    ],
    "people": 2000,
    "places": 0,
    "phrasings": 8,
    "unread": 500,
    "invented": 500,
    "layers": 4,
    "heads": 8,
    "width": 256,
    "block": 128,
    "latents": 32,
    "pretrain_steps": 5000,
    "finetune_steps": 600,
    "alone_steps": 1200,
    "batch": 128,
    "learning_rate": 3e-3,
    "finetune_rate": 6e-4,
    "precision": "bfloat16",
    "answer_characters": 40,
    "asked_at_once": 256,
    "crossed": 20,
}


def files_sha256(*paths: Path) -> str:
    """One hash over the hashes of the files; UsageError where one is not there."""
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
    return sha256_files(paths)
