"""Full fine-tuning, the head alone, prefixes and LoRA; pretrained and random weights."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from attnlab.audit.checks.grid_edge import grid_edge
from attnlab.audit.finding import Finding
from attnlab.lab.claim import MIN_SEEDS, Claim, Reported, judge
from attnlab.lab.study import StudySettings, deferred
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import wilson
from attnlab.products.finetune.settings import RATES
from attnlab.studies.adapting.evidence import SHARES, AdaptArms, no_collapse
from attnlab.studies.adapting.settings import AdapterSettings
from attnlab.studies.adapting.study import AdaptStudy, enough_test_rows

COSTS = {"milliseconds_a_step": "milliseconds per step", "gpu_peak_mb": "peak GPU memory (MB)"}
TASKS = {"texts": "sentiment", "pairs": "question and passage"}
REPORTED = {"full": 0.9, "head": 0.6, "prefix": 0.8}
SMALLEST_GAP = 0.1  # of those reported, full − prefix: what the test rows must be able to show
COURSE = "course report: another encoder, consistent with ten examples"
LABELS = {
    "full": "full fine-tuning",
    "head": "head only",
    "prefix": "prefix at the input",
    "prefix-layers": "prefix in every layer",
    "lora": "LoRA",
}


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

    figures = deferred(".adapter_figures:figures")

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
        return [
            self.trial(
                seed,
                task=task,
                arm=arm,
                part=f"{task}: {arm}",
                **s.search_config(
                    [float(f"{factor * RATES[config['method']]:.3g}") for factor in s.factors],
                    search="grid",
                    batches=[s.batch],
                    all_epochs=[epochs],
                ),
                **base | config,
            )
            for arm, config in arms.items()
            for seed in range(seeds)
        ]

    def evidence(self, table: Table) -> AdaptArms:
        """Methods and further encoders are arms, in each of the two tasks."""
        s = self.settings
        others = {f"full, {name}": f"{LABELS['full']}, {name}" for name in s.encoders}
        labels = {**{arm: LABELS[arm] for arm in s.methods}, **others}
        return AdaptArms(table, labels, shares=SHARES)

    def claims(self, arms: AdaptArms) -> Sequence[Claim]:
        """On each task: full fine-tuning against the majority, other methods, other encoders."""
        tasks = [task for task in TASKS if task != "pairs" or self.settings.pair_data]
        return [
            *(claim for task in tasks for claim in self._task_claims(arms.task(task), task)),
            no_collapse(arms.all_rows(), lambda row: TASKS[row["task"]]),
        ]

    def _task_claims(self, arms: AdaptArms, task: str) -> Iterator[Claim]:
        if "full" not in self.settings.methods:
            return
        yield _beats_majority(arms, task)
        for arm in self.settings.methods:
            if arm != "full":
                yield _full_beats(arms, task, arm)
        for name in self.settings.encoders:
            yield _beats_encoder(arms, task, name)

    def audits(self, arms: AdaptArms, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Did dev choose an end of a grid? Could the test rows show the smallest reported gap?"""
        s = self.settings
        seeds = {"texts": s.seeds, "pairs": s.pair_seeds if s.pair_data else 0}
        rows = {
            f"{task}: {arm}": arms.task(task).rows(arm)
            for task, count in seeds.items()
            if count >= MIN_SEEDS
            for arm in s.methods
        }
        choices = [
            choice
            for task, words in TASKS.items()
            for arm in arms.task(task).names()
            for choice in arms.task(task).choices(
                arm, "factors", "rate", claims, f"{arms.label(arm)} on {words}"
            )
        ]
        return [grid_edge(choices), enough_test_rows(rows, SMALLEST_GAP)]

    def facts(self, arms: AdaptArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """Full fine-tuning against each method on the first task; what was measured."""
        by_name = {claim.name: claim for claim in claims}
        against = {
            label: by_name[f"texts-full-beats-{arm}"]
            for arm, label in LABELS.items()
            if f"texts-full-beats-{arm}" in by_name
        }
        tasks = [task for task in TASKS if arms.task(task).names()]
        return {
            **super().facts(arms, claims),
            "against": against,
            "labels": LABELS,
            "tasks": {task: TASKS[task] for task in tasks},
            "costs": {k: v for k, v in COSTS.items() if any(k in row.cost for row in arms.table)},
            "ten_examples": wilson(8, 10),
        }


def _beats_majority(arms: AdaptArms, task: str) -> Claim:
    majority = arms.mean("full", "majority")
    return judge(
        f"{task}-full-beats-majority",
        f"On {TASKS[task]}, full fine-tuning beats the majority class",
        arms.accuracy("full"),
        above=majority,
        quantity="test accuracy",
        trials=arms.ids("full"),
        comparison=True,
    )


def _full_beats(arms: AdaptArms, task: str, arm: str) -> Claim:
    reported = None
    if arm in REPORTED:
        gap = REPORTED["full"] - REPORTED[arm]
        reported = Reported(gap, COURSE, comparable=False, note=f"0.9 − {REPORTED[arm]:g}")
    return arms.accuracy_difference(
        f"{task}-full-beats-{arm}",
        f"On {TASKS[task]}, full fine-tuning is more accurate than the method '{LABELS[arm]}'",
        "full",
        arm,
        above=0.0,
        reported=reported,
    )


def _beats_encoder(arms: AdaptArms, task: str, name: str) -> Claim:
    arm = f"full, {name}"
    statement = (
        "pretrained weights do better than random ones in the same architecture"
        if name == "random"
        else f"the encoder does better than {name}"
    )
    return arms.accuracy_difference(
        f"{task}-beats-{name.replace('/', '-')}",
        f"On {TASKS[task]}, {statement}",
        "full",
        arm,
        above=0.0,
    )
