"""Full fine-tuning, the head alone, prefixes and LoRA; pretrained and random weights."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from attnlab.audit.checks.grid_edge import grid_edge
from attnlab.audit.finding import Finding
from attnlab.lab.claim import MIN_SEEDS, Claim, Reported
from attnlab.lab.study import StudySettings, deferred, setting
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import wilson
from attnlab.products.finetune.settings import RATES
from attnlab.studies.adapting.evidence import AdaptArms, enough_test_rows, no_collapse
from attnlab.studies.adapting.study import AdaptSettings, AdaptStudy, Rates, rates_text

COSTS = {"milliseconds_a_step": "milliseconds per step", "gpu_peak_mb": "peak GPU memory (MB)"}
TASKS = {"texts": "sentiment", "pairs": "question and passage"}
COURSE = "course report: another encoder, consistent with ten examples"
REPORTED = {  # full fine-tuning has 0.9
    method: Reported(0.9 - accuracy, COURSE, comparable=False, note=f"0.9 − {accuracy:g}")
    for method, accuracy in {"head": 0.6, "prefix": 0.8}.items()
}
SMALLEST_GAP = 0.1  # of those reported, full − prefix: what the test rows must be able to show
LABELS = {
    "full": "full fine-tuning",
    "head": "head only",
    "prefix": "prefix at the input",
    "prefix-layers": "prefix in every layer",
    "lora": "LoRA",
}
METHODS = tuple(LABELS)


class AdapterSettings(AdaptSettings):
    """Methods and encoders on two tasks."""

    methods: tuple[Literal["full", "head", "prefix", "prefix-layers", "lora"], ...] = setting(
        "methods to compare: what is trained",
        ("full", "head", "prefix"),
        smoke=METHODS,
        full=METHODS,
        min_length=1,
    )
    encoders: tuple[str, ...] = setting(
        "encoders to compare with `model` by full fine-tuning; random: the same architecture, "
        "not pretrained",
        ("random",),
    )
    factors: Rates = setting(
        "learning rates tried, as multiples of the method's default",
        (0.3, 1.0),
        smoke=(30.0,),
        full=(0.3, 1.0, 3.0),
        min_length=1,
    )
    prefix_length: int = setting("trained vectors of a prefix", 8, smoke=5, full=128, ge=1)
    rank: int = setting("rank of LoRA", 8, ge=1)
    batch: int = setting("batch size in rows", 8, smoke=16, full=64, ge=1)
    epochs: float = setting("training epochs", 2.0, smoke=3.0, full=4.0, gt=0)

    pair_data: str = setting(
        "data of the second task; empty: none", "", smoke="made-up pairs", full="boolq"
    )
    pair_seeds: int = setting("models per method on the second task", 3, smoke=1, ge=1)
    pair_rows: int = setting("training rows of the second task; 0: all", 0, smoke=60, ge=0)
    pair_scored: int = setting(
        "dev rows and test rows of the second task, each; 0: all", 0, smoke=96, ge=0
    )
    pair_longest: int = setting("maximum tokens of a question and its passage", 256, smoke=24, ge=8)
    pair_epochs: float = setting("training epochs on the second task", 3.0, smoke=1.0, gt=0)


class Adapters(AdaptStudy):
    """Reported: full 0.9, head 0.6, prefix 0.8, validation and test equal: ten examples each."""

    name = "adapters"
    version = 2
    question = "How much of a pretrained encoder must be trained, and what is pretraining worth?"
    source = (
        "A course report: full fine-tuning 0.9, head only 0.6, prefix of length 128 0.8, "
        "validation and test equal (consistent with ten examples)"
    )
    Settings: ClassVar[type[StudySettings]] = AdapterSettings
    settings: AdapterSettings
    presets: ClassVar = {"full": {"evaluations": 2}}
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "about 14 minutes on two cores (estimated); without BoolQ and two methods",
        "full": "not measured since its grids were widened; one H200 (--device cuda --workers 14)",
    }
    may_fail: ClassVar = {"collapse": ("*",), "baselines": ("*",)}  # that is what is asked here
    template = "adapters.md"

    figures = deferred(".figures:adapter_figures")

    def trials(self) -> Sequence[Trial]:
        """Every method and every further encoder on both tasks, seed by seed; the longest first."""
        s, trials = self.settings, []
        if s.pair_data:
            pairs = s.second_task("pair")
            trials += self._task_trials("pairs", pairs, s.pair_epochs, s.pair_seeds)
        trials += self._task_trials("texts", s.base(), s.epochs, s.seeds)
        return sorted(trials, key=lambda trial: trial.seed)

    def _task_trials(
        self, task: str, base: dict[str, Any], epochs: float, seeds: int
    ) -> list[Trial]:
        s = self.settings
        arms = {
            method: {"method": method, "prefix_length": s.prefix_length, "rank": s.rank}
            for method in sorted(s.methods, key=lambda name: not name.startswith("prefix"))
        }
        for name in s.encoders:
            other = {"init": "random"} if name == "random" else {"model": name, "model_sha256": ""}
            arms[f"full, {name}"] = {"method": "full", **other}
        trials = []
        for arm, config in arms.items():
            rates = [float(f"{factor * RATES[config['method']]:.3g}") for factor in s.factors]
            names = {"task": task, "arm": arm, "part": f"{task}: {arm}"}
            search = s.search_config(rates, [s.batch], [epochs])
            config = {**names, **search, **base, **config}
            trials += [self.trial(seed, **config) for seed in range(seeds)]
        return trials

    def labels(self) -> Mapping[str, str]:
        """Methods and further encoders are arms, in each of the two tasks."""
        s = self.settings
        others = {f"full, {name}": f"{LABELS['full']}, {name}" for name in s.encoders}
        return {**{arm: LABELS[arm] for arm in s.methods}, **others}

    def claims(self, arms: AdaptArms) -> Sequence[Claim]:
        """On each task: full fine-tuning against the majority, other methods, other encoders."""
        s = self.settings
        tasks = [task for task in TASKS if task != "pairs" or s.pair_data]
        by_task = [self._task_claims(arms.task(task), task) for task in tasks]
        return [
            *(claim for claims in by_task if "full" in s.methods for claim in claims),
            no_collapse({TASKS[task]: arms.task(task).table.rows for task in TASKS}),
        ]

    def _task_claims(self, arms: AdaptArms, task: str) -> list[Claim]:
        on = f"On {TASKS[task]}"
        claims = [
            arms.beats_majority(
                f"{task}-full-beats-majority",
                f"{on}, full fine-tuning beats the majority class",
                "full",
                quantity="test accuracy",
            )
        ]
        for arm in self.settings.methods:
            if arm != "full":
                name = f"{task}-full-beats-{arm}"
                more = f"{on}, full fine-tuning is more accurate than the method '{LABELS[arm]}'"
                reported = REPORTED.get(arm)
                claims.append(arms.accuracy_difference(name, more, "full", arm, reported=reported))
        for encoder in self.settings.encoders:
            name = f"{task}-beats-{encoder.replace('/', '-')}"
            better = f"the encoder does better than {encoder}"
            if encoder == "random":
                better = "pretrained weights do better than random ones in the same architecture"
            other = f"full, {encoder}"
            claims.append(arms.accuracy_difference(name, f"{on}, {better}", "full", other))
        return claims

    def audits(self, arms: AdaptArms, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Did dev choose an end of a grid? Could the test rows show the smallest reported gap?"""
        s = self.settings
        seeds = {"texts": s.seeds, "pairs": s.pair_seeds if s.pair_data else 0}
        rows, choices = {}, []
        for task, words in TASKS.items():
            here = arms.task(task)
            if seeds[task] >= MIN_SEEDS:
                rows |= {f"{task}: {arm}": here.rows(arm) for arm in s.methods}
            for arm in here.names():
                label = f"{arms.label(arm)} on {words}"
                choices += here.choices(arm, "factors", claims, label=label)
        return [grid_edge(choices), enough_test_rows(rows, SMALLEST_GAP)]

    def facts(self, arms: AdaptArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """Full fine-tuning against each method on the first task; what was measured."""
        by_arm = {claim.name.removeprefix("texts-full-beats-"): claim for claim in claims}
        return {
            "rates": rates_text,
            "against": {label: by_arm[arm] for arm, label in LABELS.items() if arm in by_arm},
            "tasks": {task: words for task, words in TASKS.items() if arms.task(task).names()},
            "costs": {k: v for k, v in COSTS.items() if any(k in row.cost for row in arms.table)},
            "ten_examples": wilson(8, 10),
        }
