"""One trial: a search whose chosen cell meets the test rows once, or a single training on dev."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from attnlab.core.config import build
from attnlab.core.errors import UsageError
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.intervals import wilson
from attnlab.models.encoder import Classifier
from attnlab.products.finetune.settings import FinetuneSettings
from attnlab.products.finetune.watch import after, before, collapsed, few, invariant, told
from attnlab.products.finetune.work import AUDITED_ROWS, SCORED_AT_ONCE, Prepared, training
from attnlab.studies.adapting.material import material
from attnlab.studies.adapting.search import Cell, Search, grid, halving
from attnlab.studies.adapting.settings import CELLS, RIGHT
from attnlab.tasks.labelled import majority
from attnlab.train.classify import Predictions, predict
from attnlab.train.tune import count_parameters, expected_trainable

AXES = ("learning_rate", "batch", "epochs")


def work(trial: Trial, context: TrialContext) -> Outcome:
    """A trial's configuration: its kind, the settings of a training, the axes of its search."""
    c = trial.config
    s = settings_of(c)
    p = material(s, trial.stream, c["tested"])
    if len({row.label for row in p.data.train}) < 2:
        raise UsageError(f"{s.data}: the {len(p.train)} rows learnt from have one label only")
    search = Search(p, trial.stream, context, with_train=bool(c.get("with_train")))
    said = _before(search, s)
    if c["kind"] == "search":
        return _searched(search, s, c, said)
    return _single(search, s, said, whole=c["kind"] == "collapse")


def settings_of(c: Mapping[str, Any]) -> FinetuneSettings:
    """The settings of a training in a trial's configuration."""
    names = FinetuneSettings.model_fields
    return build(FinetuneSettings, {k: v for k, v in c.items() if k in names})


def _before(search: Search, s: FinetuneSettings) -> dict[str, str]:
    """split-overlap and freeze, on a model of its own."""
    from attnlab.train.tune import build_classifier

    p = search.p
    model = build_classifier(p.encoder, len(p.data.labels), s.tuning(), search.seed).to(
        search.context.device
    )
    return before(model, s, p.data, training(s, len(p.train)), few(p.train, AUDITED_ROWS))


def _searched(
    search: Search, s: FinetuneSettings, c: Mapping[str, Any], said: dict[str, str]
) -> Outcome:
    """All cells on dev; the best of them on the test rows, once."""
    axes = {"learning_rate": c["rates"], "batch": c["batches"], "epochs": c["all_epochs"]}
    if c["search"] == "halving":
        halving(search, s, axes)
    else:
        for cell in grid(s, axes):
            search.cell(cell)
    best = search.chosen()
    documents = {CELLS: json.dumps(list(search.found.values()))}
    if best["dev_accuracy"] is None:
        return Outcome(
            {"accuracy": math.nan},
            documents=documents,
            reasons={"accuracy": f"every cell diverged: {best['problem']}"},
        )
    own = s.model_copy(
        update={"learning_rate": best["rate"], "batch": best["batch"], "epochs": best["epochs"]}
    )
    model, p = search.model(own), search.p
    test = predict(model, p.test.batches_by_length(SCORED_AT_ONCE))
    train = predict(model, p.train.batches_by_length(SCORED_AT_ONCE))
    said |= after(model, own, p.data, test, few(p.train, AUDITED_ROWS), p.encoder)
    said["audit_metric-invariance"] = told(invariant(model, p.dev))
    share = wilson(test.correct, len(test.labels))
    return Outcome(
        {
            "accuracy": share.value,
            "accuracy_low": share.low,
            "accuracy_high": share.high,
            "right": test.correct,
            "tested": len(test.labels),
            "test_loss": test.loss,
            "train_accuracy": train.accuracy,
            **_of_cell(best),
            **_sizes(model, p, own),
            **said,
            "cells": len(search.found),
        },
        cost=search.cost,
        arrays={RIGHT: (test.classes == test.labels).astype(np.uint8)},
        curves=best["curves"],
        documents=documents,
    )


def _single(search: Search, s: FinetuneSettings, said: dict[str, str], *, whole: bool) -> Outcome:
    """One training; test stays untouched, unless `whole`: nothing is chosen from what collapsed.

    Then dev and test are one set again, as they were published.
    """
    cell = search.cell(s)
    documents = {CELLS: json.dumps([cell])}
    if cell["dev_accuracy"] is None:
        return Outcome(
            {"dev_accuracy": math.nan},
            documents=documents,
            reasons={"dev_accuracy": cell["problem"]},
        )
    model, p = search.model(s), search.p
    metrics: dict[str, Any] = {**_of_cell(cell), **_sizes(model, p, s), **said}
    if whole:
        metrics |= _whole(model, p)
    return Outcome(metrics, cost=search.cost, curves=cell["curves"], documents=documents)


def _whole(model: Classifier, p: Prepared) -> dict[str, Any]:
    parts = [predict(model, rows.batches_by_length(SCORED_AT_ONCE)) for rows in (p.dev, p.test)]
    both = Predictions(
        np.concatenate([part.logits for part in parts]),
        np.concatenate([part.labels for part in parts]),
    )
    share = np.bincount(both.labels).max() / len(both.labels)
    return {
        "whole_accuracy": both.accuracy,
        "whole_majority": float(share),
        "whole_rows": len(both.labels),
        "audit_collapse": told(collapsed(both, p.data.labels)),
        "whole_top_share": float(np.bincount(both.classes).max() / len(both.labels)),
    }


def _of_cell(cell: Cell) -> dict[str, Any]:
    """The scalars of the chosen cell."""
    names = (
        "dev_accuracy",
        "dev_loss",
        "rate",
        "best_step",
        "steps",
        "epoch_steps",
        "collapse_first_epoch",
        "collapsed_evaluations",
        "evaluations",
        "last_dev_accuracy",
    )
    return {name: cell[name] for name in names} | {
        "chosen_batch": cell["batch"],
        "chosen_epochs": cell["epochs"],
        "best_epoch": cell["best_step"] / cell["epoch_steps"],
        "last_top_share": cell["top_share"],
    }


def _sizes(model: Classifier, p: Prepared, s: FinetuneSettings) -> dict[str, Any]:
    counts = count_parameters(model)
    return {
        "majority": majority(p.data.test),
        "dev_majority": majority(p.data.dev),
        "train_rows": len(p.train),
        "dev_rows": len(p.dev),
        "trained": counts.trained,
        "stored": counts.stored,
        "cut": p.train.report(),
        "by_formula": expected_trainable(p.encoder, len(p.data.labels), s.tuning()),
    }
