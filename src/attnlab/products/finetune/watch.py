"""The audits of one fine-tuning: while it learns, and on what it ended with."""

from collections.abc import Mapping, Sequence
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
from attnlab.models.encoder import Classifier, Encoder, Texts, open_encoder
from attnlab.products.finetune.settings import RATES, FinetuneSettings
from attnlab.tasks.encoder_inputs import EncodedExamples
from attnlab.tasks.labelled import LabelledData
from attnlab.train.batch import map_tensors
from attnlab.train.classify import Predictions, cross_entropy
from attnlab.train.optimizer import build_optimizer
from attnlab.train.settings import TrainSettings
from attnlab.train.tensors import from_safetensors, model_tensors, to_safetensors
from attnlab.train.tune import (
    build_classifier,
    describe_classifier,
    expected_trainable,
    rebuild_classifier,
    trainable_names,
)
from attnlab.train.update import Updater

INVARIANT_ROWS = 16
STEP = {"optimizer": "adamw", "momentum": 0.0}  # of the audit freeze


class Watch:
    """Hears every evaluation on dev and judges at once: a collapse has its name in the log."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels, self.now = labels, ""

    def __call__(self, predicted: Predictions) -> dict[str, float]:
        """What the line of the log gets besides accuracy and loss."""
        found = collapsed(predicted, self.labels)
        self.now = f", collapsed: {found.why}" if found.verdict == "fail" else ""
        return {"collapsed": float(found.verdict == "fail"), "top_share": found.number or 0.0}


def first_epoch(evaluations: Sequence[Mapping[str, Any]], steps: int) -> str:
    """What the last evaluation of the first epoch said, from the log: a resumed run's is whole."""
    within = [line for line in evaluations if line["step"] <= steps]
    if not within:
        return "not-applicable"
    line = within[-1]
    if not line["collapsed"]:
        return "pass"
    share = f"{line['top_share']:.1%} of the dev predictions are one class"
    return f"fail: collapsed at step {line['step']}, within the first epoch: {share}"


def collapsed(predicted: Predictions, labels: tuple[str, ...]) -> Finding:
    """The audit collapse, in the words of the classes."""
    said = [[labels[i] for i in side] for side in (predicted.classes, predicted.labels)]
    return collapse(*said)


def told(finding: Finding) -> str:
    """'pass', 'not-applicable' or 'fail: why', as a metric."""
    return f"fail: {finding.why}" if finding.verdict == "fail" else finding.verdict


def before(
    model: Classifier,
    s: FinetuneSettings,
    data: LabelledData,
    settings: TrainSettings,
    batch: Texts,
) -> dict[str, str]:
    """split-overlap and freeze: on the data and on the untrained model, which is put back.

    The step is AdamW's, whatever trains: a key's bias moves all scores of a query alike, so that
    its gradient is rounding alone, and a step of SGD would leave it where it is.
    """
    settings = settings.model_copy(update={**STEP, "learning_rate": RATES[s.method]})
    labels = {name: [e.label for e in part] for name, part in data.as_dict().items()}
    overlap = split_overlap(
        data.texts(), labels=labels, classes=len(data.labels), chosen_on="dev", reported_on="test"
    )
    updater = Updater(model, build_optimizer(model, settings), cross_entropy, settings)
    here = map_tensors(batch, lambda tensor: tensor.to(updater.device))

    def step() -> None:
        updater.start(here)
        updater.finish(0, settings.learning_rate)

    steps = 2 if s.method == "lora" else 1
    count = expected_trainable(model.base, len(data.labels), s.tuning())
    with torch.random.fork_rng(devices=[]):
        frozen = freeze(model, step, trainable_names(model), count=count, steps=steps)
    return {"audit_split-overlap": told(overlap), "audit_freeze": told(frozen)}


def after(
    model: Classifier,
    s: FinetuneSettings,
    data: LabelledData,
    test: Predictions,
    batch: Texts,
    base: Encoder | None = None,
) -> dict[str, str]:
    """collapse and baselines on the test predictions, adapter-effect on the trained model.

    `base` is the encoder as it was; without it, it is read from its files once more.
    """
    gold, train = test.labels.tolist(), [e.label for e in data.train]
    known = answer_baselines(gold, train, len(data.labels))
    found: Mapping[str, Finding] = {
        "collapse": collapsed(test, data.labels),
        "baselines": baselines(wilson(test.correct, len(gold)), known),
        "adapter-effect": effect(model, s, data.labels, batch, base),
    }
    return {f"audit_{name}": told(finding) for name, finding in found.items()}


def effect(
    model: Classifier,
    s: FinetuneSettings,
    labels: tuple[str, ...],
    batch: Texts,
    base: Encoder | None = None,
) -> Finding:
    """Against a random part and none under the same head, and after a way through bytes."""
    device = next(model.parameters()).device
    if base is None:
        base = open_encoder(s.model)
    here: Any = map_tensors(batch, lambda tensor: tensor.to(device))

    def answer(other: Classifier) -> Tensor:
        other.to(device).eval()
        return other(here.ids, here.key_padding_mask, here.kinds)

    others = {}
    if s.method not in ("head", "full"):
        seed = Seed(s.first_seed).child("audit")
        rand = build_classifier(base, len(labels), s.tuning(), seed)
        none = build_classifier(base, len(labels), s.tuning().model_copy(update=PLAIN), seed)
        _shake(rand, seed)
        for other in (rand, none):
            other.head.load_state_dict(model.head.state_dict())
        others = {"a random part": lambda: answer(rand), "none": lambda: answer(none)}
    tensors = from_safetensors(to_safetensors(model_tensors(model)))
    again = rebuild_classifier(describe_classifier(model, s.tuning(), labels), tensors, base)
    return adapter_effect(lambda: answer(model), others, lambda: answer(again))


PLAIN = {"method": "head", "pooling": "mean"}


@torch.no_grad()
def invariant(model: Classifier, rows: EncodedExamples) -> Finding:
    """metric-invariance of the loss on a few rows: alone, together, with more padding.

    In float64, where rounding cannot hide that padding is read; float32 weights come back exactly.
    """
    chosen = np.unique(np.linspace(0, len(rows) - 1, min(len(rows), INVARIANT_ROWS)).astype(int))
    device = next(model.parameters()).device

    def loss(size: int, pads: int) -> float:
        total = 0.0
        for start in range(0, len(chosen), size):
            now = chosen[start : start + size]
            longest = int(max(len(rows.ids[i]) for i in now))
            batch = rows.batch(now, min(longest + pads, rows.max_tokens))
            here: Any = map_tensors(batch, lambda tensor: tensor.to(device))
            logits = model(here.ids, here.key_padding_mask, here.kinds)
            total += float(functional.cross_entropy(logits, here.labels, reduction="sum"))
        return total / len(chosen)

    model.eval().double()
    try:
        return metric_invariance(loss, sizes=(1, 7, INVARIANT_ROWS), rows=len(chosen))
    finally:
        model.float()


@torch.no_grad()
def _shake(model: Classifier, seed: Seed) -> None:
    """LoRA starts at 0, where a random one is no other than none: everything added is drawn."""
    generator = seed.torch_generator()
    for name, p in model.named_parameters():
        if p.requires_grad and not name.startswith("head.") and bool((p == 0).all()):
            p.copy_(torch.randn(p.shape, generator=generator) * 0.02)


def few(rows: Any, number: int) -> Texts:
    """A small batch of the shortest rows, for the audits."""
    return rows.batch(np.argsort(rows.lengths, kind="stable")[:number])
