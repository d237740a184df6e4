"""The study behind `attnlab train`: one text, one model a seed, n-gram baselines beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from attnlab.audit.finding import Finding
from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_file
from attnlab.lab.claim import Claim, judge
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.intervals import mean_interval
from attnlab.studies.audited import audit_findings

BASELINES = ("unigram", "bigram", "trigram")


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class TextSettings(StudySettings):
    """A text, a tokenizer, a model and a training."""

    seeds: int = about("models, each with its own seed", 1, ge=1)
    first_seed: int = about("the first of these seeds", 0, ge=0)
    text: str = about("'shakespeare' (an asset), a UTF-8 file, or a folder of .txt", "shakespeare")
    text_sha256: str = about("of the file, filled in: another text is another run", "")
    tokenizer: Literal["char", "word", "bpe"] = about("what a token is", "char")
    vocabulary: int = about("largest vocabulary; 0: as many as there are (bpe: 4,096)", 0, ge=0)
    min_count: int = about("rarer tokens are <UNK>", 1, ge=1)

    size: Literal["nano", "micro", "mini"] = about(
        "nano 3/3/48, micro 4/4/128, mini 6/6/192", "nano"
    )
    layers: int = about("0: as the size says", 0, ge=0)
    heads: int = about("0: as the size says", 0, ge=0)
    d_model: int = about("width; 0: as the size says", 0, ge=0)
    block: int = about("tokens a model sees at once", 128, ge=2)
    position: str = about("learned, sinusoidal, rotary, alibi or none", "learned")

    steps: int = about("updates", 2000, ge=1)
    batch: int = about("windows of `block` tokens an update", 32, ge=1)
    accumulate: int = about("pieces a batch is computed in", 1, ge=1)
    optimizer: Literal["adamw", "sgd", "adagrad"] = about("from torch.optim", "adamw")
    learning_rate: float = about("its peak", 0.003, gt=0)
    schedule: Literal["cosine", "linear", "constant"] = about("after the warm-up", "cosine")
    warmup_fraction: float = about("of the steps: the rate rises", 0.05, ge=0, le=1)
    weight_decay: float = about("on matrices", 0.1, ge=0)
    clip: float = about("largest norm of the gradient; 0: as it comes", 1.0, ge=0)
    precision: Literal["float32", "bfloat16"] = about("bfloat16: autocast on a GPU", "float32")
    compile: bool = about("torch.compile", False)
    evaluations: int = about("times the dev text is scored while training", 10, ge=1)
    checkpoint_every: int = about("steps between checkpoints besides evaluations; 0: none", 0, ge=0)
    threads: int = about("of the CPU: they change the last bits", 1, ge=1)
    scored: int = about("windows of each split that are scored", 200, ge=1)
    prompt: str = about("what the sample goes on from; empty: the start of a text", "")
    sample_tokens: int = about("tokens of the sample", 120, ge=1)

    @model_validator(mode="after")
    def _whole_batches(self) -> "TextSettings":
        if self.batch % self.accumulate:
            raise ValueError(f"batch {self.batch} cannot be cut into {self.accumulate} pieces")
        return self


SMOKE: dict[str, Any] = {
    "steps": 6,
    "batch": 4,
    "block": 32,
    "evaluations": 2,
    "scored": 4,
    "sample_tokens": 8,
}


class TrainText(Study):
    """A GPT from parts, trained on any text."""

    name = "train"
    version = 2  # samples come from decode/generate.py since
    question = "What does a small GPT learn from this text, beside counting?"
    Settings: ClassVar[type[StudySettings]] = TextSettings
    presets: ClassVar = {"smoke": SMOKE, "full": {"size": "mini", "steps": 20_000, "seeds": 3}}
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "about 3 minutes on two cores",
        "full": "not measured",
    }
    settings: TextSettings

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The text's hash becomes a setting, so that another text is another run."""
        if "position" in overrides:
            from attnlab.parts.position import Position

            Position.config_from_json({"name": overrides["position"]})  # or the nearest name
        text = overrides.get("text", "shakespeare")
        if isinstance(text, str) and not overrides.get("text_sha256") and text != "shakespeare":
            overrides["text_sha256"] = content_sha256(Path(text))
        return super().at(scale, **overrides)

    def fetch(self) -> None:
        """The text must be there and yield a model before a run is begun."""
        from attnlab.products.train_text.work import model_config, prepared

        model_config(self.settings, prepared(self.settings).tokenizer.size)

    def trials(self) -> Sequence[Trial]:
        """One a seed; everything that changes the numbers is in its configuration."""
        own, first = self.settings_json(), self.settings.first_seed
        for key in ("seeds", "first_seed", "trial_seconds", "trial_memory_gb", "checkpoint_every"):
            del own[key]
        own["text"] = Path(
            own["text"]
        ).name  # its hash says which one; where it lies does not matter
        return [self.trial(seed, **own) for seed in range(first, first + self.settings.seeds)]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Tokenizer, training, perplexities, baselines, a sample."""
        from attnlab.products.train_text.work import trained

        return trained(self.settings, trial, context)

    def claims(self, table: Table) -> list[Claim]:
        """The model beats counting; decided from three seeds on."""
        found = []
        for name in BASELINES:
            ratios = [r["dev_perplexity"] / r[f"{name}_perplexity"] for r in table]
            found.append(
                judge(
                    f"beats-{name}",
                    f"The model beats a {name} model of the same tokens",
                    mean_interval(ratios),
                    below=1.0,
                    quantity=f"dev perplexity / {name}",
                    trials=table.ids,
                )
            )
        return found

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Every model at its start and end."""
        return audit_findings(table, self.claims(table), {})

    def figures(self, table: Table) -> list[Figure]:
        """Loss and dev perplexity against steps."""
        from attnlab.products.train_text.figures import learning_figure

        return [learning_figure(table)] if len(table) else []

    def answer(self, claims: Sequence[Claim]) -> str:
        """The ratio to the best baseline."""
        best = max(
            (c for c in claims if c.estimate.n), key=lambda c: c.estimate.value, default=None
        )
        if best is None:
            return "Nothing was trained to its end."
        return (
            f"{best.estimate.value:.3f} times the perplexity of the best n-gram model "
            f"({best.name.removeprefix('beats-')}), over {best.estimate.n} "
            f"{'model' if best.estimate.n == 1 else 'models'}."
        )

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """What the models write."""
        lines = tuple(f"seed {row.seed}: {text}" for row in table for text in row.samples)
        return [Section("What the models write", lines)] if lines else []


def content_sha256(path: Path) -> str:
    """SHA-256 of a file, or of a folder's .txt files by name; UsageError where there is none."""
    import hashlib

    try:
        if path.is_file():
            return sha256_file(path)
        files = sorted(path.glob("*.txt")) if path.is_dir() else []
        if files:
            words = "".join(f"{file.name} {sha256_file(file)}\n" for file in files)
            return hashlib.sha256(words.encode()).hexdigest()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    raise UsageError(f"{path}: no such text file, nor a folder with .txt files")
