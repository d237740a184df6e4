"""One fine-tuning: data in ids, the loop, the best weights by dev, the test rows once."""

import copy
import json
import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome, Trial, TrialContext, TrialStopped
from attnlab.measure.intervals import wilson
from attnlab.models.encoder import Classifier, Encoder, open_encoder
from attnlab.models.trainable import redraw_weights
from attnlab.products.finetune.settings import FinetuneSettings, labelled
from attnlab.products.finetune.watch import Watch, after, before, few, first_epoch, invariant, told
from attnlab.tasks.encoder_inputs import EncodedExamples, ShuffledBatches, encode_examples
from attnlab.tasks.labelled import LabelledData, majority
from attnlab.train.checkpoint import CheckpointWarning
from attnlab.train.classify import FitResult, Predictions, fit, predict
from attnlab.train.determinism import use_threads
from attnlab.train.result import Hooks, Progress, TrainResult
from attnlab.train.settings import TrainSettings
from attnlab.train.tensors import model_tensors
from attnlab.train.tune import (
    build_classifier,
    count_parameters,
    describe_classifier,
    expected_trainable,
    max_text_tokens,
)

DOCUMENT = "tuned.json"
PREFIX = "tuned."  # of the arrays
SCORED_AT_ONCE = 64
AUDITED_ROWS = 4
FIFTIETHS = 50


@dataclass(frozen=True)
class Prepared:
    """The data, the encoder, and the splits in ids."""

    data: LabelledData
    encoder: Encoder
    train: EncodedExamples
    dev: EncodedExamples
    test: EncodedExamples


def prepared(s: FinetuneSettings, seed: Seed | None = None) -> Prepared:
    """Everything that can be wrong with data and model is found here."""
    data = labelled(s).sample(s.rows, s.scored, s.scored)
    p = assembled(s, data, open_encoder(s.model))
    return replace(p, encoder=begun(s, p.encoder, seed or Seed(0)))


def begun(s: FinetuneSettings, encoder: Encoder, seed: Seed) -> Encoder:
    """The encoder as it is, or a copy with every weight drawn anew."""
    if s.init == "pretrained":
        return encoder
    library = redraw_weights(copy.deepcopy(encoder.library), seed.child("encoder"))
    return replace(encoder, library=library)


def assembled(s: FinetuneSettings, data: LabelledData, encoder: Encoder) -> Prepared:
    """These data in this encoder's ids."""
    most = max_text_tokens(encoder, s.tuning())
    longest = min(s.longest or most, most)
    parts = [encode_examples(encoder.tokenizer, rows, longest) for rows in data.as_dict().values()]
    return Prepared(data, encoder, *parts)


def finetuned(s: FinetuneSettings, trial: Trial, context: TrialContext) -> Outcome:
    """The classifier of highest dev accuracy, and what it scores on the test rows."""
    with use_threads(s.threads):
        seed = trial.stream
        p = prepared(s, seed)
        if len({row.label for row in p.data.train}) < 2:
            raise UsageError(f"{s.data}: the rows that are learnt from have one label only")
        model = build_classifier(p.encoder, len(p.data.labels), s.tuning(), seed).to(context.device)
        settings = training(s, len(p.train))
        small = few(p.train, AUDITED_ROWS)
        said = before(model, s, p.data, settings, small)
        watch = Watch(p.data.labels)
        done = _fit(model, p, settings, context, (s, seed, watch))
        if done.trained.ending == "diverged":
            return Outcome({"accuracy": math.nan}, reasons={"accuracy": done.trained.problem})
        test = predict(model, p.test.batches_by_length(SCORED_AT_ONCE))
        dev = predict(model, p.dev.batches_by_length(SCORED_AT_ONCE))
        said |= after(model, s, p.data, test, small)
        said["audit_metric-invariance"] = told(invariant(model, p.dev))
        said["collapse_first_epoch"] = first_epoch(done.evaluations, an_epoch(s, len(p.train)))
        return Outcome(
            {
                **_scores(p, s, test, dev),
                **_counts(model, p, s),
                **said,
                "best_step": done.best_step,
                "steps": settings.steps,
                "collapsed_evaluations": sum(int(line["collapsed"]) for line in done.evaluations),
            },
            arrays={
                f"{PREFIX}{k}": v.detach().cpu().numpy() for k, v in model_tensors(model).items()
            },
            curves=curves(done.trained),
            samples=_samples(p),
            documents={DOCUMENT: json.dumps(document(model, p, s))},
        )


def training(s: FinetuneSettings, rows: int) -> TrainSettings:
    """Epochs in steps; dev is scored so many times an epoch, at its end always."""
    steps = an_epoch(s, rows)
    return TrainSettings(
        steps=max(1, round(s.epochs * steps)),
        batch=s.batch,
        optimizer=s.optimizer,
        momentum=s.momentum,
        learning_rate=s.rate,
        schedule="linear",
        warmup_fraction=s.warmup,
        final_fraction=0.0,
        weight_decay=s.weight_decay,
        precision=s.precision,
        deterministic=s.deterministic and s.device != "cpu",
        evaluate_every=max(1, steps // s.evaluations),
    )


def an_epoch(s: FinetuneSettings, rows: int) -> int:
    """Steps in which every row is met."""
    return math.ceil(rows / s.batch)


def document(model: Classifier, p: Prepared, s: FinetuneSettings) -> dict[str, Any]:
    """What `predict` needs besides the tensors."""
    return {
        **describe_classifier(model, s.tuning(), p.data.labels),
        "longest": p.train.max_tokens,
        "pair": p.data.train[0].second is not None,
    }


def _fit(
    model: Classifier, p: Prepared, settings: TrainSettings, context: TrialContext, rest: Any
) -> FitResult:
    s, seed, watch = rest
    hooks = Hooks(
        progress=lambda at: context.step(at.step, at.steps, _words(at) + watch.now),
        stop=context.stopping,
    )
    batches = ShuffledBatches(p.train, s.batch, seed.child("order"))
    with warnings.catch_warnings():
        warnings.simplefilter("default", CheckpointWarning)
        done = fit(
            model,
            batches,
            settings,
            dev=lambda: p.dev.batches_by_length(SCORED_AT_ONCE),
            checkpoints=context.checkpoints,
            hooks=hooks,
            on_predictions=watch,
        )
    if done.trained.ending == "stopped":
        raise TrialStopped
    return done


def _words(at: Progress) -> str:
    return f"loss {at.loss:.3f}"


def _scores(
    p: Prepared, s: FinetuneSettings, test: Predictions, dev: Predictions
) -> dict[str, float | int | str]:
    share = wilson(test.correct, len(test.labels))
    return {
        "accuracy": share.value,
        "accuracy_low": share.low,
        "accuracy_high": share.high,
        "right": test.correct,
        "tested": len(test.labels),
        "test_loss": test.loss,
        "majority": majority(p.data.test),
        "dev_accuracy": dev.accuracy,
        "train_rows": len(p.train),
        "dev_rows": len(p.dev),
        "classes": len(p.data.labels),
        "rate": s.rate,
        "cut": p.train.report(),
    }


def _counts(model: Classifier, p: Prepared, s: FinetuneSettings) -> dict[str, int | None]:
    found = count_parameters(model)
    formula = expected_trainable(p.encoder, len(p.data.labels), s.tuning())
    return {
        "trained": found.trained,
        "stored": found.stored,
        "head": found.head,
        "by_formula": formula,
    }


def _samples(p: Prepared) -> list[str]:
    """What no row can show: the ends of texts that were cut away."""
    return [f"row {cut.row} lost {cut.tokens} tokens: {cut.text[:300]}" for cut in p.train.examples]


def curves(done: TrainResult) -> dict[str, list[float]]:
    """Training loss of each fiftieth of the steps; dev where it was scored."""
    parts = np.array_split(np.asarray(done.losses), min(FIFTIETHS, len(done.losses)))
    scored = [line for line in done.log if line.get("value") is not None]
    return {
        "step": np.cumsum([len(part) for part in parts]).astype(float).tolist(),
        "train_loss": [float(part.mean()) for part in parts],
        "dev_step": [float(line["step"]) for line in scored],
        "dev_loss": [float(line["dev_loss"]) for line in scored],
        "dev_accuracy": [float(line["dev_accuracy"]) for line in scored],
    }
