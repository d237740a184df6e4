"""Statements that courses make about tokenizers, masks and training: each is run and judged."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from attnlab.audit.checks.baselines import baselines
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.audit.finding import Finding
from attnlab.lab.arms import Arms, Share
from attnlab.lab.claim import Claim
from attnlab.lab.study import Study, StudySettings, deferred, setting
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import Estimate
from attnlab.measure.shares import effective_items, share_interval

Part = Literal["pair", "loop", "order", "merges", "masking", "ids", "anew"]
Target = Literal["law", "plays", "records"]
# the settings that a part's trials depend on; the longest trials first
PARTS: dict[Part, str] = {
    "anew": "sizes source_bytes scored_bytes vocabulary layers heads width block batch "
    "pretrain_steps steps evaluations learning_rate tune_rate",
    "ids": "reader foreign foreign_tokens",
    "order": "encoder sentences epochs",
    "pair": "encoder pairs longest",
    "masking": "encoder masked",
    "merges": "merges merge_bytes",
    "loop": "",
}
ASSETS = {
    "anew": ("xsum", "gpt2-bpe"),
    "ids": ("xsum", "gpt2-bpe"),
    "order": ("movie-reviews",),
    "pair": ("boolq", "gpt2-bpe"),
    "masking": ("xsum",),
    "merges": ("shakespeare",),
    "loop": (),
    "law": ("multi-lexsum",),
    "plays": ("shakespeare",),
    "records": ("people",),
}
TARGETS = {"law": "court cases", "plays": "Shakespeare's plays", "records": "rows of a table"}
LABELS = {
    "pair": "pairs of texts",
    "loop": "a training step",
    "order": "order of the training data",
    "merges": "BPE merges",
    "masking": "masked language modelling",
    "ids": "ids of another tokenizer",
    **TARGETS,
}
SHARES = {
    "shuffled_accuracy": Share("tested"),
    "sorted_accuracy": Share("tested"),
    "shuffled": Share(),  # curves
    "sorted": Share(),
}


class ConceptsSettings(StudySettings):
    """Which parts run, on how much text, and how large the GPT is that is trained."""

    seeds: int = setting("independent repetitions of every part", 5, smoke=3, ge=1)
    parts: tuple[Part, ...] = setting(
        "the parts to run",
        tuple(PARTS),
        smoke=("anew", "order", "pair", "masking", "merges", "loop"),
        min_length=1,
    )
    encoder: str = setting("BERT-like encoder: an asset or a Hugging Face folder", "minilm-l6")
    reader: str = setting(
        "language model that reads another tokenizer's ids: an asset or a Hugging Face folder",
        "smollm2",
    )

    pairs: int = setting(
        "question-passage pairs that the encoder reads", 24, smoke=3, full=200, ge=2
    )
    longest: int = setting("max_length: tokens of a pair after truncation", 96, full=256, ge=8)
    sentences: int = setting(
        "training sentences, read shuffled or sorted by class", 800, smoke=24, full=4000, ge=16
    )
    epochs: int = setting("epochs over these sentences", 4, ge=1)
    masked: int = setting(
        "sentences that are masked for a masked language model", 800, smoke=12, full=8000, ge=1
    )
    merges: int = setting("BPE merges to learn", 200, smoke=20, full=1000, ge=1)
    merge_bytes: int = setting(
        "bytes of text to learn merges from", 60_000, smoke=3000, full=400_000, ge=100
    )
    foreign: int = setting(
        "texts encoded with another model's tokenizer", 24, smoke=3, full=200, ge=2
    )
    foreign_tokens: int = setting("tokens of each of these texts", 64, smoke=8, full=100, ge=2)

    targets: tuple[Target, ...] = setting(
        "target texts that a model pretrained on news is adapted to",
        ("law", "records"),
        smoke=("records",),
        full=("law", "plays", "records"),
        min_length=1,
    )
    sizes: tuple[int, ...] = setting(
        "bytes of target text to train on, in rising order",
        (20_000, 100_000, 500_000),
        smoke=(4000, 9000),
        full=(20_000, 100_000, 500_000, 2_000_000),
        min_length=1,
    )
    source_bytes: int = setting(
        "bytes of news for the pretrained model and its tokenizer",
        1_500_000,
        smoke=20_000,
        full=1_700_000,
        ge=1000,
    )
    scored_bytes: int = setting(
        "bytes of the dev set, and of the test set", 40_000, smoke=1500, full=100_000, ge=500
    )
    vocabulary: int = setting(
        "vocabulary size of every tokenizer", 1024, smoke=300, full=4096, ge=300
    )
    layers: int = setting("layers of the GPT", 3, smoke=1, full=6, ge=1)
    heads: int = setting("attention heads per layer", 3, smoke=2, full=6, ge=1)
    width: int = setting("model width", 48, smoke=8, full=192, ge=2)
    block: int = setting("context length in tokens", 64, smoke=16, full=128, ge=2)
    batch: int = setting("sequences per step", 16, smoke=4, full=32, ge=1)
    pretrain_steps: int = setting("training steps on news", 600, smoke=4, full=6000, ge=1)
    steps: int = setting(
        "training steps on the target, the same at every size", 350, smoke=4, full=3000, ge=1
    )
    evaluations: int = setting(
        "evaluations per training; test is reported where dev is best", 5, smoke=2, full=15, ge=1
    )
    learning_rate: float = setting(
        "peak learning rate of AdamW for new weights", 3e-3, full=1e-3, gt=0
    )
    tune_rate: float = setting("peak learning rate for pretrained weights", 1.5e-3, full=5e-4, gt=0)

    @model_validator(mode="after")
    def _values_fit_each_other(self) -> "ConceptsSettings":
        for name in ("parts", "targets", "sizes"):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise ValueError(f"{name} must not repeat an entry")
        if list(self.sizes) != sorted(self.sizes) or self.sizes[0] < 1000:
            raise ValueError("sizes must be in rising order, each at least 1,000 bytes")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be divided among {self.heads} heads")
        return self


class Evidence(Arms):
    """Arms are parts and targets; counts are summed over seeds."""

    def rows(self, arm: str) -> list[Row]:
        """One row per seed of a part or of a target, sorted by seed."""
        columns = {"part": "anew", "target": arm} if arm in TARGETS else {"part": arm}
        return sorted(self.table.where(**columns), key=lambda row: row.seed)

    def total(self, arm: str, metric: str) -> int:
        """A count summed over seeds."""
        return sum(int(row[metric]) for row in self.rows(arm))

    def share(self, arm: str, count: str, of: str) -> Estimate:
        """A share of all items; the interval covers other seeds and other items."""
        return share_interval([(int(row[count]), int(row[of])) for row in self.rows(arm)])

    def document(self, arm: str, name: str) -> Any:
        """A JSON document of the first seed that has it, else None."""
        documents = (row.documents for row in self.rows(arm))
        return next((json.loads(texts[name]) for texts in documents if name in texts), None)


class Concepts(Study):
    """Each part is one concept; its claims say what running it shows."""

    name = "concepts"
    question = "Is what courses teach about tokenizers, masks, labels and pretraining true?"
    source = (
        "Exam questions of courses on adapting pretrained models; one attempt answered wrongly why "
        "tokenizer and model must come from the same checkpoint"
    )
    Settings: ClassVar[type[StudySettings]] = ConceptsSettings
    settings: ConceptsSettings
    expected: ClassVar = {
        "smoke": "under a minute on two cores",
        "quick": "about 12 minutes on two cores",
        "full": "not measured; hours on two cores",
    }
    template = "report.md"

    run = deferred(".trial:run")
    claims = deferred(".claims:claims")
    figures = deferred(".figures:figures")

    def fetch(self) -> None:
        """Every asset that a part needs, before any trial starts."""
        from attnlab import assets

        s = self.settings
        used = [*s.parts, *(s.targets if "anew" in s.parts else ())]
        needed = {name for part in used for name in ASSETS[part]}
        settings = {setting for part in s.parts for setting in PARTS[part].split()}
        models = {getattr(s, name) for name in settings & {"encoder", "reader"}}
        for name in sorted(needed | (models & set(assets.names()))):
            assets.get(name)

    def trials(self) -> Sequence[Trial]:
        """Every part (for "anew": every target) with every seed."""
        s, settings, trials = self.settings, self.settings_json(), []
        for part in sorted(s.parts, key=list(PARTS).index):
            config = {key: settings[key] for key in PARTS[part].split()} | {"part": part}
            for target in [{"target": t} for t in s.targets] if part == "anew" else [{}]:
                trials += [self.trial(seed, **config, **target) for seed in range(s.seeds)]
        return trials

    def evidence(self, table: Table) -> Evidence:
        """The trials by part; those of "anew" by target."""
        return Evidence(table, LABELS, shares=SHARES)

    def audits(self, e: Evidence, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Whether shuffled training beats a constant answer, the test set, and the splits."""
        return [*_shuffled_training(e, claims), *self._splits(e)]

    def _splits(self, e: Evidence) -> list[Finding]:
        """No document may be in two splits; dev chooses the step, test is reported."""
        if not any(e.rows(target) for target in self.settings.targets):
            return []
        from attnlab.studies.concepts.texts import text_splits

        parts = {
            f"{target} {name}": part
            for target in self.settings.targets
            for name, part in zip(("train", "dev", "test"), text_splits(target).parts, strict=True)
        }
        splits = {"news train": text_splits("news").train, **parts}
        return [split_overlap(splits, chosen_on="dev", reported_on="test")]

    def facts(self, e: Evidence, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """Targets with trials, and for which of them each start was shown to be better."""
        targets = self.settings.targets if "anew" in self.settings.parts else ()
        verdicts = {claim.name: claim.verdict for claim in claims}
        better = {
            name: [LABELS[t] for t in targets if verdicts[f"{name}-{t}"] == "holds"]
            for name in ("pretraining-pays", "anew-pays")
        }
        return {
            "targets": [target for target in targets if e.rows(target)],
            "better": better,
            "compared": 2 * len(targets),
            "open": 2 * len(targets) - sum(map(len, better.values())),
        }


def _shuffled_training(e: Evidence, claims: Sequence[Claim]) -> list[Finding]:
    """Shuffled training must beat the most frequent class, or the comparison says nothing."""
    rows = e.rows("order")
    if not rows:
        return []
    share = e.estimate("order", "shuffled_accuracy")
    tested = round(effective_items(list(e.counts("order", "shuffled_accuracy").values())))
    effect = next((c.estimate.value for c in claims if c.name == "shuffling-helps"), 0.0)
    return [
        baselines(share, {"the most frequent class": e.mean("order", "majority")}),
        small_sample({"shuffled": (round(share.value * tested), tested)}, effect),
    ]
