"""Audits of one fine-tuning: of its data, and of the model before, during and after training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from attnlab.audit.checks.adapter_effect import adapter_effect
from attnlab.audit.checks.baselines import answer_baselines, baselines
from attnlab.audit.checks.collapse import collapse
from attnlab.audit.checks.freeze import freeze
from attnlab.audit.checks.metric_invariance import metric_invariance
from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.audit.finding import Finding
from attnlab.core.seeds import Seed
from attnlab.measure.intervals import wilson
from attnlab.models.encoder import Classifier, Encoder, Texts
from attnlab.products.finetune.settings import RATES, FinetuneSettings
from attnlab.products.finetune.task import EncodedTask
from attnlab.tasks.encoder_inputs import EncodedExamples
from attnlab.training.batch import map_tensors
from attnlab.training.classify import Predictions, cross_entropy
from attnlab.training.optimizer import build_optimizer
from attnlab.training.settings import TrainSettings
from attnlab.training.tensors import from_safetensors, model_tensors, to_safetensors
from attnlab.training.tune import (
    build_classifier,
    describe_classifier,
    expected_trainable,
    rebuild_classifier,
    trainable_names,
)
from attnlab.training.update import Updater

AUDITED_ROWS = 4  # the shortest training rows: enough for freeze and adapter-effect
INVARIANT_ROWS = 16
FREEZE_STEP = {"optimizer": "adamw", "momentum": 0.0}
NO_ADAPTER = {"method": "head", "pooling": "mean"}


def collapse_of(predictions: Predictions, labels: tuple[str, ...]) -> Finding:
    """The audit `collapse`, with the classes by name."""
    predicted, gold = (
        [labels[i] for i in side] for side in (predictions.classes, predictions.labels)
    )
    return collapse(predicted, gold)


class CollapseWatch:
    """Audits every evaluation on dev, so that a collapse shows while the model trains.

    `more` adds further numbers to the log at every evaluation.
    """

    def __init__(
        self, labels: tuple[str, ...], more: Callable[[], Mapping[str, float]] = dict
    ) -> None:
        self.labels, self.more, self.message = labels, more, ""

    def __call__(self, predictions: Predictions) -> dict[str, float]:
        """Audit the predictions of this evaluation; returns numbers for the log."""
        finding = collapse_of(predictions, self.labels)
        failed = finding.verdict == "fail"
        self.message = f", collapsed: {finding.why}" if failed else ""
        return {"collapsed": float(failed), "top_share": finding.number or 0.0, **self.more()}


def first_epoch_collapse(evaluations: Sequence[Mapping[str, Any]], epoch_steps: int) -> str | None:
    """A sentence if the last evaluation of the first epoch found a collapse, otherwise None."""
    within = [line for line in evaluations if line["step"] <= epoch_steps]
    if not within or not within[-1]["collapsed"]:
        return None
    share = f"{within[-1]['top_share']:.1%} of the dev predictions are one class"
    return f"collapsed at step {within[-1]['step']}, within the first epoch: {share}"


def with_history(finding: Finding, first_epoch: str | None, collapsed_evaluations: int) -> Finding:
    """A finding of `collapse` whose evidence also tells what dev showed during training."""
    history = {"first_epoch": first_epoch, "collapsed_evaluations": collapsed_evaluations}
    return replace(finding, evidence={**finding.evidence, **history})


def findings_before(
    model: Classifier, s: FinetuneSettings, task: EncodedTask, settings: TrainSettings
) -> list[Finding]:
    """`split-overlap` of the data; `freeze` of the untrained model, which is restored.

    The step of `freeze` is AdamW's, whatever trains: the bias of a key moves all scores of a query
    alike, so its gradient is rounding error alone, and a step of SGD would not move it.
    """
    data = task.data
    settings = settings.model_copy(update={**FREEZE_STEP, "learning_rate": RATES[s.method]})
    labels = {name: [e.label for e in part] for name, part in data.as_dict().items()}
    overlap = split_overlap(
        data.texts(), labels=labels, classes=len(data.labels), chosen_on="dev", reported_on="test"
    )
    updater = Updater(model, build_optimizer(model, settings), cross_entropy, settings)
    batch = map_tensors(shortest_rows(task.train), lambda tensor: tensor.to(updater.device))

    def step() -> None:
        updater.start(batch)
        updater.finish(0, settings.learning_rate)

    steps = 2 if s.method == "lora" else 1
    count = expected_trainable(model.base, len(data.labels), s.tuning())
    with torch.random.fork_rng(devices=[]):
        frozen = freeze(model, step, trainable_names(model), count=count, steps=steps)
    return [overlap, frozen]


def findings_after(
    model: Classifier, s: FinetuneSettings, task: EncodedTask, test: Predictions
) -> list[Finding]:
    """`collapse` and `baselines` of the test predictions; the others of the trained model."""
    gold, train = test.labels.tolist(), [e.label for e in task.data.train]
    known = answer_baselines(gold, train, len(task.data.labels))
    return [
        collapse_of(test, task.data.labels),
        baselines(wilson(test.correct, len(gold)), known),
        effect_of_adapter(model, s, task),
        invariance(model, task.dev),
    ]


def effect_of_adapter(model: Classifier, s: FinetuneSettings, task: EncodedTask) -> Finding:
    """`adapter-effect`: against a random adapter and none with the same head; after a reload."""
    device, labels = next(model.parameters()).device, task.data.labels
    batch: Any = map_tensors(shortest_rows(task.train), lambda tensor: tensor.to(device))

    def logits(other: Classifier) -> Tensor:
        other.to(device).eval()
        return other(batch.ids, batch.key_padding_mask, batch.kinds)

    others = {}
    if s.method not in ("head", "full"):
        random, none = _other_adapters(model, s, task.encoder, len(labels))
        others = {"a random part": lambda: logits(random), "none": lambda: logits(none)}
    tensors = from_safetensors(to_safetensors(model_tensors(model)))
    description = describe_classifier(model, s.tuning(), labels)
    reloaded = rebuild_classifier(description, tensors, task.encoder)
    return adapter_effect(lambda: logits(model), others, lambda: logits(reloaded))


def _other_adapters(
    model: Classifier, s: FinetuneSettings, encoder: Encoder, classes: int
) -> tuple[Classifier, Classifier]:
    """The model with a random adapter and without one; the head is the trained one."""
    seed = Seed(s.first_seed).child("audit")
    random = build_classifier(encoder, classes, s.tuning(), seed)
    none = build_classifier(encoder, classes, s.tuning().model_copy(update=NO_ADAPTER), seed)
    _randomize_zeros(random, seed)
    for other in (random, none):
        other.head.load_state_dict(model.head.state_dict())
    return random, none


@torch.no_grad()
def _randomize_zeros(model: Classifier, seed: Seed) -> None:
    """LoRA starts at 0, where a random adapter equals none: draw what is 0."""
    generator = seed.torch_generator()
    for name, p in model.named_parameters():
        if p.requires_grad and not name.startswith("head.") and bool((p == 0).all()):
            p.copy_(torch.randn(p.shape, generator=generator) * 0.02)


@torch.no_grad()
def invariance(model: Classifier, rows: EncodedExamples) -> Finding:
    """`metric-invariance` of the loss on a few rows: one by one, in batches, with more padding.

    In float64, where rounding cannot hide that padding is read; float32 weights come back exactly.
    """
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), INVARIANT_ROWS)).astype(int))
    device = next(model.parameters()).device

    def loss(size: int, pads: int) -> float:
        total = 0.0
        for start in range(0, len(chosen), size):
            numbers = chosen[start : start + size]
            longest = int(max(len(rows.ids[i]) for i in numbers))
            batch = rows.batch(numbers, min(longest + pads, rows.max_tokens))
            moved: Any = map_tensors(batch, lambda tensor: tensor.to(device))
            logits = model(moved.ids, moved.key_padding_mask, moved.kinds)
            total += float(functional.cross_entropy(logits, moved.labels, reduction="sum"))
        return total / len(chosen)

    model.eval().double()
    try:
        return metric_invariance(loss, sizes=(1, 7, INVARIANT_ROWS), rows=len(chosen))
    finally:
        model.float()


def shortest_rows(rows: EncodedExamples) -> Texts:
    """The shortest rows of a split as a small batch for the audits."""
    return rows.batch(np.argsort(rows.lengths, kind="stable")[:AUDITED_ROWS])
