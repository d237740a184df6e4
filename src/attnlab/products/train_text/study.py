"""What `attnlab train` runs: one text, one GPT per seed, n-gram models beside it."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import model_validator

from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_file
from attnlab.lab.claim import Claim, judge
from attnlab.lab.study import NOT_OF_A_TRIAL, Study, StudySettings, deferred, setting
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import mean_interval

BASELINES = ("unigram", "bigram", "trigram")
SKIPPED = NOT_OF_A_TRIAL | {"first_seed", "checkpoint_every"}  # no trial depends on them


class TextSettings(StudySettings):
    """The text, its tokenizer, the model and its training."""

    seeds: int = setting("models, each with its own seed", 1, full=3, ge=1)
    first_seed: int = setting("the first of these seeds", 0, ge=0)
    text: str = setting(
        "training text: 'shakespeare', a UTF-8 file, or a folder of .txt files", "shakespeare"
    )
    text_sha256: str = setting(
        "hash of the text, filled in automatically: another text makes another run", ""
    )
    tokenizer: Literal["char", "word", "bpe"] = setting("characters, words or byte pairs", "char")
    vocabulary: int = setting("largest vocabulary; 0: no limit (bpe: 4,096)", 0, ge=0)
    min_count: int = setting("tokens that occur less often are <UNK>", 1, ge=1)

    size: Literal["nano", "micro", "mini"] = setting(
        "layers/heads/width of the model: nano 3/3/48, micro 4/4/128, mini 6/6/192",
        "nano",
        full="mini",
    )
    layers: int = setting("number of layers; 0: that of the size", 0, ge=0)
    heads: int = setting("number of attention heads; 0: that of the size", 0, ge=0)
    d_model: int = setting("model width; 0: that of the size", 0, ge=0)
    block: int = setting("context length in tokens", 128, smoke=32, ge=2)
    position: str = setting("learned, sinusoidal, rotary, alibi or none", "learned")

    steps: int = setting("training steps", 2000, smoke=6, full=20_000, ge=1)
    batch: int = setting("windows of `block` tokens per batch", 32, smoke=4, ge=1)
    accumulate: int = setting("gradient accumulation: pieces a batch is computed in", 1, ge=1)
    optimizer: Literal["adamw", "sgd", "adagrad"] = setting("optimizer of torch.optim", "adamw")
    learning_rate: float = setting("peak learning rate", 0.003, gt=0)
    schedule: Literal["cosine", "linear", "constant"] = setting(
        "learning rate after the warm-up", "cosine"
    )
    warmup_fraction: float = setting(
        "share of the steps with a rising learning rate", 0.05, ge=0, le=1
    )
    weight_decay: float = setting("weight decay of matrices", 0.1, ge=0)
    clip: float = setting("largest gradient norm; 0: no clipping", 1.0, ge=0)
    precision: Literal["float32", "bfloat16"] = setting(
        "bfloat16 uses autocast, on a GPU", "float32"
    )
    compile: bool = setting("use torch.compile", False)
    evaluations: int = setting("times the dev text is scored during training", 10, smoke=2, ge=1)
    checkpoint_every: int = setting(
        "steps between checkpoints besides those at evaluations; 0: none", 0, ge=0
    )
    threads: int = setting("CPU threads; they change the last bits of the results", 1, ge=1)
    scored: int = setting("windows of each split that are scored", 200, smoke=4, ge=1)
    prompt: str = setting("prompt of the sample; empty: the start of a text", "")
    sample_tokens: int = setting("tokens of the sample", 120, smoke=8, ge=1)

    @model_validator(mode="after")
    def _whole_batches(self) -> "TextSettings":
        if self.batch % self.accumulate:
            raise ValueError(f"batch {self.batch} is not divisible by accumulate {self.accumulate}")
        return self


class TrainText(Study):
    """A GPT from parts, trained on any text."""

    name = "train"
    version = 2  # samples come from decode/generate.py since
    question = "What does a small GPT learn from this text that counting n-grams does not?"
    Settings: ClassVar[type[StudySettings]] = TextSettings
    settings: TextSettings
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "about 3 minutes on two cores",
        "full": "not measured",
    }
    template = "report.md"

    fetch = deferred(".trial:check_text")
    run = deferred(".trial:run")
    figures = deferred("attnlab.products.figures:of_texts")

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The hash of the text becomes a setting, so that another text is another run."""
        if "position" in overrides:
            from attnlab.parts.position import Position

            Position.config_from_json({"name": overrides["position"]})  # or the nearest name
        text = overrides.get("text", "shakespeare")
        if isinstance(text, str) and not overrides.get("text_sha256") and text != "shakespeare":
            overrides["text_sha256"] = content_sha256(Path(text))
        return super().at(scale, **overrides)

    def trials(self) -> Sequence[Trial]:
        """One trial per seed; the hash identifies the text, so its folder is left out."""
        config = {k: v for k, v in self.settings_json().items() if k not in SKIPPED}
        config["text"] = Path(config["text"]).name
        first = self.settings.first_seed
        return [self.trial(seed, **config) for seed in range(first, first + self.settings.seeds)]

    def claims(self, table: Table) -> Sequence[Claim]:
        """The model beats n-gram models; decided from three seeds on."""
        return [
            judge(
                f"beats-{name}",
                f"The model beats a {name} model of the same tokens",
                mean_interval([row["dev_perplexity"] / row[f"{name}_perplexity"] for row in table]),
                below=1.0,
                quantity=f"dev perplexity / {name}",
                trials=table.ids,
                comparison=True,
            )
            for name in BASELINES
        ]


def content_sha256(path: Path) -> str:
    """SHA-256 of a file, or of a folder's .txt files by name; UsageError where there is none."""
    try:
        if path.is_file():
            return sha256_file(path)
        files = sorted(path.glob("*.txt")) if path.is_dir() else []
        if files:
            lines = "".join(f"{file.name} {sha256_file(file)}\n" for file in files)
            return hashlib.sha256(lines.encode()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    raise UsageError(f"{path}: no such text file, nor a folder with .txt files")
