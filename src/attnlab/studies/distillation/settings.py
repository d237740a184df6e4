"""What can be varied; the defaults are the quick scale."""

from typing import Any, Literal

from pydantic import Field, model_validator

from attnlab.lab.study import StudySettings

Arm = Literal["teacher", "untuned", "text", "logits", "human", "lead"]
ARMS: tuple[Arm, ...] = ("teacher", "untuned", "text", "logits", "human", "lead")
TRAINED: tuple[Arm, ...] = ("text", "logits", "human")
ONE = "Summarize the following article in one sentence."
SEVERAL = "Summarize the following text in a few sentences."


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class DistilSettings(StudySettings):
    """A teacher, a student, articles with summaries, and one training for every arm."""

    seeds: int = about("students an arm; below 3 nothing about training is concluded", 1, ge=1)
    arms: tuple[Arm, ...] = about("which of the arms are run", ARMS, min_length=1)

    data: str = about(
        "'xsum' or 'multi-lexsum' (assets), 'made-up', or a JSONL file with document and summary",
        "xsum",
    )
    data_sha256: str = about("of the file, filled in: another file is another run", "")
    train: int = about("articles to learn from; 0: all of the train split", 150, ge=0)
    dev: int = about("articles whose loss is watched while training; 0: all", 24, ge=0)
    test: int = about("articles whose summaries are scored; 0: all", 60, ge=0)
    article_tokens: int = about("longest article, in the teacher's tokens", 128, ge=8)
    summary_tokens: int = about("longest summary, read or written", 48, ge=2)
    instruction: str = about(
        "said before each article, the same for every arm, by the model's own chat template", ONE
    )
    lead: int = about("sentences of the baseline without a model", 1, ge=1)
    lines: int = about("court cases that show what line ends do to Lsum; 0: all", 0, ge=0)

    teacher: str = about(
        "'smollm2' (an asset), 'tiny' (random, for made-up data), a folder, a .gguf or a hub name",
        "smollm2",
    )
    student: str = about("a folder or a hub name; empty: made of the teacher's layers", "")
    models_sha256: str = about("of both, where they are files here; filled in", "")
    student_layers: int = about("layers of a student made of the teacher's", 15, ge=1)
    kept: Literal["ends", "even"] = about(
        "which of them: the first and the last halves, or evenly spaced", "ends"
    )
    init: Literal["teacher", "random"] = about("where its weights begin", "teacher")

    divergence: Literal["forward", "reverse", "jsd"] = about("of the arm on logits", "forward")
    temperature: float = about("of both distributions there", 1.0, gt=0)
    logits_on: Literal["teacher", "human"] = about(
        "whose summaries its positions are of", "teacher"
    )

    epochs: int = about("times every article is learnt from", 2, ge=1)
    batch: int = about("articles a step", 4, ge=1)
    accumulate: int = about("pieces a batch is computed in", 1, ge=1)
    learning_rate: float = about("peak of AdamW's step size", 3e-4, gt=0)
    warmup: float = about("share of the steps in which it rises", 0.1, ge=0, le=1)
    weight_decay: float = about("on matrices", 0.01, ge=0)
    precision: Literal["float32", "bfloat16"] = about(
        "bfloat16: autocast while training", "float32"
    )
    deterministic: bool = about("on a GPU: kernels whose bits repeat while training", True)
    evaluations: int = about("times the dev loss is taken", 4, ge=1)
    weights: Literal["best", "last"] = about(
        "which are scored: those of the lowest dev loss on people's summaries, or the last", "best"
    )
    generate_batch: int = about("summaries written at once", 30, ge=1)

    stemmer: bool = about("Porter's, before words are compared", True)
    tokenizer: Literal["ascii", "unicode"] = about("what a word is to ROUGE", "ascii")
    splitter: Literal["newline", "sentence"] = about("what a sentence is to ROUGE-Lsum", "sentence")
    metric: Literal["rouge1", "rouge2", "rougeL", "rougeLsum"] = about(
        "which ROUGE the claims are about", "rougeL"
    )
    shown: int = about("articles whose summaries the report shows", 3, ge=0)

    @model_validator(mode="after")
    def _together(self) -> "DistilSettings":
        if self.batch % self.accumulate:
            raise ValueError(f"batch {self.batch} cannot be cut into {self.accumulate} pieces")
        if len(set(self.arms)) != len(self.arms):
            raise ValueError("an arm is named twice")
        if (self.teacher == "tiny") != (self.data == "made-up"):
            raise ValueError("teacher 'tiny' and data 'made-up' know the same words: use both")
        return self


# what suits references of several sentences; a setting given by a person stands
BY_DATA: dict[str, dict[str, Any]] = {
    "multi-lexsum": {"instruction": SEVERAL, "summary_tokens": 160, "lead": 4},
}
SMOKE: dict[str, Any] = {
    "data": "made-up",
    "teacher": "tiny",
    "instruction": SEVERAL,
    "student_layers": 2,
    "seeds": 3,
    "train": 16,
    "dev": 4,
    "test": 24,
    "article_tokens": 40,
    "summary_tokens": 24,
    "epochs": 4,
    "batch": 4,
    "learning_rate": 0.01,
}
FULL: dict[str, Any] = {
    "seeds": 5,
    "train": 0,
    "dev": 0,
    "test": 0,
    "article_tokens": 512,
    "summary_tokens": 64,
    "epochs": 4,
    "batch": 8,
    "precision": "bfloat16",
    "evaluations": 12,
    "generate_batch": 96,
}
