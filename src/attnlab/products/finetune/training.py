"""Training one classifier: settings in steps, and the loop."""

import math

from attnlab.core.seeds import Seed
from attnlab.lab.training import train_in_trial
from attnlab.lab.trial import TrialContext
from attnlab.models.encoder import Classifier
from attnlab.products.finetune.audits import CollapseWatch
from attnlab.products.finetune.settings import FinetuneSettings
from attnlab.products.finetune.task import EncodedTask, evaluation_batch
from attnlab.tasks.encoder_inputs import ShuffledBatches
from attnlab.training.classify import fit
from attnlab.training.result import TrainResult
from attnlab.training.settings import TrainSettings


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
