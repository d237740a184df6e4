"""A teacher writes summaries; a student learns from them, from its logits, or from people."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from attnlab.core.files import sha256_of_paths, sha256_of_setting
from attnlab.lab.arms import ArmStudy
from attnlab.lab.study import Study, StudySettings, deferred, setting
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial
from attnlab.studies.distillation.evidence import ScoredArms

Arm = Literal["teacher", "untuned", "text", "logits", "human", "lead"]
ARMS = {
    "teacher": "teacher",
    "untuned": "untrained student",
    "text": "student (teacher's texts)",
    "logits": "student (teacher's logits)",
    "human": "student (people's texts)",
    "lead": "first sentences",
}
NAMED = ("xsum", "multi-lexsum", "made-up")  # data that are not a file
ONE = "Summarize the following article in one sentence."
SEVERAL = "Summarize the following text in a few sentences."
OF_LINES = ("stemmer", "tokenizer", "data", "lines")  # settings of the trial on line ends


class DistilSettings(StudySettings):
    """A teacher, a student, articles with summaries, and one training for every arm."""

    seeds: int = setting(
        "students per arm; with fewer than 3, no claim on training", 3, full=5, ge=1
    )
    arms: tuple[Arm, ...] = setting("the arms to run", tuple(ARMS), min_length=1)

    data: str = setting(
        "'xsum' or 'multi-lexsum' (assets), 'made-up', or a JSONL file with document and summary",
        "xsum",
        smoke="made-up",
    )
    data_sha256: str = setting("hash of the data file; filled in automatically", "")
    train: int = setting("training articles; 0: all", 60, smoke=16, full=0, ge=0)
    dev: int = setting("articles of the dev loss; 0: all", 16, smoke=4, full=0, ge=0)
    test: int = setting("test articles; 0: all", 40, smoke=24, full=0, ge=0)
    article_tokens: int = setting(
        "longest article, in tokens of the teacher", 96, smoke=40, full=512, ge=8
    )
    summary_tokens: int = setting("longest summary, in tokens", 40, smoke=24, full=64, ge=2)
    instruction: str = setting(
        "prompt before each article, put into the chat template", ONE, smoke=SEVERAL
    )
    lead: int = setting("sentences of the baseline that copies the article's beginning", 1, ge=1)
    lines: int = setting("court cases that show what line breaks do to Lsum; 0: all", 0, ge=0)

    teacher: str = setting(
        "'smollm2' (an asset), 'tiny' (random, for made-up data), a folder, a .gguf or a hub name",
        "smollm2",
        smoke="tiny",
    )
    student: str = setting("a folder or a hub name; empty: built from the teacher's layers", "")
    models_sha256: str = setting("hash of local models; filled in automatically", "")
    student_layers: int = setting(
        "layers of a student built from the teacher's", 6, smoke=2, full=15, ge=1
    )
    kept: Literal["ends", "even"] = setting(
        "layers to keep: the first and the last ones, or evenly spaced ones", "ends"
    )
    init: Literal["teacher", "random"] = setting("initial weights of the student", "teacher")

    divergence: Literal["forward", "reverse", "jsd"] = setting("loss on logits", "forward")
    temperature: float = setting("temperature of the loss on logits", 1.0, gt=0)
    logits_on: Literal["teacher", "human"] = setting(
        "summaries on which the loss on logits is computed: the teacher's or people's", "teacher"
    )

    epochs: int = setting("epochs of training", 2, smoke=4, full=4, ge=1)
    batch: int = setting("articles per step", 4, full=8, ge=1)
    accumulate: int = setting("gradient accumulation: parts of a batch", 1, ge=1)
    learning_rate: float = setting("peak learning rate of AdamW", 3e-4, smoke=0.01, gt=0)
    warmup: float = setting("share of the steps with a rising learning rate", 0.1, ge=0, le=1)
    weight_decay: float = setting("weight decay of matrices", 0.01, ge=0)
    precision: Literal["float32", "bfloat16"] = setting(
        "bfloat16: autocast while training", "float32", full="bfloat16"
    )
    deterministic: bool = setting("deterministic kernels while training on a GPU", True)
    evaluations: int = setting("evaluations of the dev loss", 2, smoke=4, full=12, ge=1)
    weights: Literal["best", "last"] = setting(
        "weights to score: those of the lowest dev loss on people's summaries, or the last", "best"
    )
    generate_batch: int = setting("summaries generated at once", 40, smoke=30, full=96, ge=1)

    stemmer: bool = setting("ROUGE compares words after Porter's stemmer", True)
    tokenizer: Literal["ascii", "unicode"] = setting(
        "which letters ROUGE counts as part of a word", "ascii"
    )
    splitter: Literal["newline", "sentence"] = setting(
        "what ROUGE-Lsum takes for a sentence", "sentence"
    )
    metric: Literal["rouge1", "rouge2", "rougeL", "rougeLsum"] = setting(
        "ROUGE score that the claims compare", "rougeL"
    )
    shown: int = setting("articles whose summaries the report shows", 3, ge=0)

    @model_validator(mode="after")
    def _fit_together(self) -> "DistilSettings":
        if self.batch % self.accumulate:
            raise ValueError(f"batch {self.batch} cannot be cut into {self.accumulate} parts")
        if len(set(self.arms)) != len(self.arms):
            raise ValueError("an arm is named twice")
        if (self.teacher == "tiny") != (self.data == "made-up"):
            raise ValueError("teacher 'tiny' and data 'made-up' know the same words: use both")
        return self


class Distillation(ArmStudy):
    """Distillation of summaries: texts or logits of a teacher against texts of people."""

    name = "distillation"
    question = "What does a small student keep of its teacher's summaries, and who teaches best?"
    source = (
        "A course report: ROUGE-1/2/L/Lsum 0.266/0.084/0.186/0.216 for the teacher, "
        "0.189/0.031/0.122/0.160 for the untuned student, 0.232/0.055/0.146/0.184 distilled, "
        "0.251/0.065/0.159/0.233 on people's summaries"
    )
    arms: ClassVar = ARMS
    extras = ("text",)
    Settings: ClassVar[type[StudySettings]] = DistilSettings
    settings: DistilSettings
    # defaults for summaries of several sentences; what the user sets takes precedence
    by_data: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "multi-lexsum": {"instruction": SEVERAL, "summary_tokens": 160, "lead": 4}
    }
    expected: ClassVar = {
        "smoke": "about 30 seconds on two cores, nothing downloaded",
        "quick": "about 15 minutes on two cores",
        "full": "three seeds took 5 minutes on an H200 (--device cuda --workers 8)",
    }
    shares_accelerator = True  # such models leave most of a GPU idle: --workers 4, say
    not_of_a_trial = ("arms", "metric", "shown", "lines")
    template = "report.md"

    fetch = deferred(".data:check_inputs")
    run = deferred(".trial:run")
    claims = deferred(".claims:claims")
    figures = deferred(".figures:figures")
    facts = deferred(".facts:facts")

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """Defaults that suit the data; the hashes of files and local models become settings."""
        data = overrides.get("data")
        pair = [str(overrides.get(key, "")) for key in ("teacher", "student")]
        hashes = {
            "models_sha256": overrides.get("models_sha256") or sha256_of_paths(*pair),
            "data_sha256": overrides.get("data_sha256") or sha256_of_setting("data", data, NAMED),
        }
        suited: dict[str, object] = {}
        if data not in (None, "made-up"):
            suited = {"teacher": "smollm2", **cls.by_data.get(str(data), {})}
        return super().at(scale, **{**suited, **overrides, **hashes})

    def trials(self) -> Sequence[Trial]:
        """Trained arms with every seed, the longest first; the others once."""
        s, config = self.settings, self.trial_settings()
        for key in ("data", "teacher", "student"):  # the name of a path, wherever it lies
            config[key] = Path(config[key]).name if Path(config[key]).exists() else config[key]
        # the first that needs the teacher's texts writes them; the second, people's, needs none
        seeds = range(s.seeds)
        pairs = [(arm, seed) for seed in seeds for arm in ("logits", "human", "text")]
        drawn = s.init == "random" and not s.student
        pairs += [("teacher", 0), *(("untuned", seed) for seed in (seeds if drawn else range(1)))]
        trials = [
            self.trial(seed, arm=arm, part=arm, **config) for arm, seed in pairs if arm in s.arms
        ]
        if "lead" in s.arms:
            on_cpu = {key: value for key, value in config.items() if key != "device"}
            trials.append(self.trial(0, arm="lead", part="no model", **on_cpu))
        lines = {key: config[key] if key in config else getattr(s, key) for key in OF_LINES}
        return [*trials, self.trial(0, arm="lines", part="no model", **lines)]

    def evidence(self, table: Table) -> ScoredArms:
        """The trials by arm, with a score for every test article."""
        return ScoredArms(table, self.arms)
