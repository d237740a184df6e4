"""One fine-tuning: train, keep the best weights by dev accuracy, score the test rows once."""

import json
import math
from typing import TYPE_CHECKING, Any

from attnlab.core.seeds import Seed
from attnlab.lab.training import train_in_trial
from attnlab.lab.trial import Outcome, Scalar, Trial, TrialContext
from attnlab.measure.intervals import wilson
from attnlab.models.encoder import Classifier
from attnlab.products.finetune.audits import (
    CollapseWatch,
    findings_after,
    findings_before,
    first_epoch_collapse,
    with_history,
)
from attnlab.products.finetune.settings import FinetuneSettings
from attnlab.products.finetune.task import EncodedTask, evaluation_batch, load_task, predict_all
from attnlab.tasks.encoder_inputs import ShuffledBatches
from attnlab.tasks.labelled import majority
from attnlab.training.classify import Predictions, fit
from attnlab.training.determinism import use_threads
from attnlab.training.result import TrainResult
from attnlab.training.settings import TrainSettings
from attnlab.training.tensors import model_tensors
from attnlab.training.tune import count_parameters, describe_classifier, expected_trainable

if TYPE_CHECKING:
    from attnlab.products.finetune.study import Finetune

DOCUMENT = "tuned.json"  # what `predict` reads besides the arrays
PREFIX = "tuned."  # of the arrays with the trained tensors


def check_task(study: "Finetune") -> None:
    """Data and encoder must be available and fit each other before a run begins."""
    load_task(study.settings)


def run(study: "Finetune", trial: Trial, context: TrialContext) -> Outcome:
    """The settings are the study's own: a trial names its files without their folders."""
    with use_threads(study.settings.threads):
        return _run(study.settings, trial, context)


def _run(s: FinetuneSettings, trial: Trial, context: TrialContext) -> Outcome:
    task = load_task(s, trial.stream)
    task.check_labels()
    model = task.build_classifier(s, trial.stream, context.device)
    settings = training_settings(s, len(task.train))
    findings = findings_before(model, s, task, settings)
    watch = CollapseWatch(task.data.labels)
    result = train_classifier(model, task, settings, trial.stream, context, watch)
    if result.ending == "diverged":
        return Outcome({"accuracy": math.nan}, reasons={"accuracy": result.problem})
    test, dev = predict_all(model, task.test), predict_all(model, task.dev)
    collapse, *others = findings_after(model, s, task, test)
    collapsed = sum(int(line["collapsed"]) for line in result.evaluations)
    first = first_epoch_collapse(result.evaluations, steps_per_epoch(s, len(task.train)))
    tensors = model_tensors(model)
    return Outcome(
        {
            **score_metrics(test),
            "dev_accuracy": dev.accuracy,
            **task_sizes(model, task, s),
            "head": count_parameters(model).head,
            "classes": len(task.data.labels),
            "rate": s.rate,
            "best_step": result.best_step,
            "steps": settings.steps,
            "collapsed_evaluations": collapsed,
        },
        arrays={f"{PREFIX}{name}": t.detach().cpu().numpy() for name, t in tensors.items()},
        curves=result.curves(dev_loss="dev_loss", dev_accuracy="dev_accuracy"),
        samples=[
            f"row {cut.row} lost {cut.tokens} tokens: {cut.text[:300]}"
            for cut in task.train.examples
        ],
        documents={DOCUMENT: json.dumps(_document(model, task, s))},
        findings=[*findings, with_history(collapse, first, collapsed), *others],
    )


def steps_per_epoch(s: FinetuneSettings, rows: int) -> int:
    """Steps in which every training row is seen once."""
    return math.ceil(rows / s.batch)


def training_settings(s: FinetuneSettings, rows: int) -> TrainSettings:
    """Epochs as steps; dev is scored `evaluations` times per epoch and after the last step."""
    steps = steps_per_epoch(s, rows)
    same = s.model_dump(include={"batch", "optimizer", "momentum", "weight_decay", "precision"})
    return TrainSettings(
        **same,
        steps=max(1, round(s.epochs * steps)),
        learning_rate=s.rate,
        schedule="linear",
        warmup_fraction=s.warmup,
        final_fraction=0.0,
        deterministic=s.deterministic and s.device != "cpu",
        evaluate_every=max(1, steps // s.evaluations),
    )


def train_classifier(
    model: Classifier,
    task: EncodedTask,
    settings: TrainSettings,
    seed: Seed,
    context: TrialContext,
    watch: CollapseWatch,
) -> TrainResult:
    """Train in place; the model then holds the weights with the highest dev accuracy."""
    return train_in_trial(
        context,
        lambda at: f"learning rate {settings.learning_rate:g}, loss {at.loss:.3f}{watch.message}",
        model,
        ShuffledBatches(task.train, settings.batch, seed.child("order")),
        settings,
        trainer=fit,
        dev=lambda: task.dev.batches_by_length(evaluation_batch(context.device)),
        checkpoints=context.checkpoints,
        on_predictions=watch,
    )


def score_metrics(test: Predictions) -> dict[str, Scalar]:
    """Accuracy with its Wilson interval over rows, and the loss."""
    share = wilson(test.correct, len(test.labels))
    return {
        "accuracy": share.value,
        "accuracy_low": share.low,
        "accuracy_high": share.high,
        "right": test.correct,
        "tested": len(test.labels),
        "test_loss": test.loss,
    }


def task_sizes(model: Classifier, task: EncodedTask, s: FinetuneSettings) -> dict[str, Scalar]:
    """Rows, trainable parameters (counted and by formula), truncation, the majority baseline."""
    counts = count_parameters(model)
    return {
        "majority": majority(task.data.test),
        "train_rows": len(task.train),
        "dev_rows": len(task.dev),
        "trained": counts.trained,
        "stored": counts.stored,
        "by_formula": expected_trainable(task.encoder, len(task.data.labels), s.tuning()),
        "cut": "; ".join(filter(None, [task.train.report(), task.data.note])),
    }


def _document(model: Classifier, task: EncodedTask, s: FinetuneSettings) -> dict[str, Any]:
    """What `predict` needs besides the tensors."""
    return {
        **describe_classifier(model, s.tuning(), task.data.labels),
        "longest": task.train.max_tokens,
        "pair": task.data.train[0].second is not None,
    }
