"""One trial: a search whose best cell is tested once, or a single training scored on dev."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from attnlab.audit.finding import Finding
from attnlab.core.config import build
from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.products.finetune.audits import (
    collapse_of,
    findings_after,
    findings_before,
    with_history,
)
from attnlab.products.finetune.settings import FinetuneSettings
from attnlab.products.finetune.task import EncodedTask, predict_all
from attnlab.products.finetune.training import training_settings
from attnlab.products.finetune.trial import score_metrics, task_sizes
from attnlab.studies.adapting.data import load_task
from attnlab.studies.adapting.search import HYPERPARAMETERS, Cell, Search, grid, halving, widen
from attnlab.studies.adapting.settings import CELLS, RIGHT
from attnlab.studies.adapting.study import AdaptStudy
from attnlab.tasks.labelled import majority
from attnlab.training.classify import Predictions
from attnlab.training.tune import check_installed

BATCH_FACTOR = 2  # between a batch size at an end of the search and the one tried beyond it
CELL_METRICS = (
    "dev_accuracy",
    "dev_loss",
    "rate",
    "best_step",
    "steps",
    "epoch_steps",
    "collapsed_evaluations",
    "evaluations",
    "last_dev_accuracy",
)


def check_tasks(study: AdaptStudy) -> None:
    """Every data set and encoder must be available and fit each other before a run begins."""
    first: dict[tuple[str, str], Trial] = {}
    for trial in study.trials():
        check_installed(trial.config["method"])
        first.setdefault((trial.config["data"], trial.config["model"]), trial)
    for trial in first.values():
        load_task(finetune_settings(trial.config), Seed(trial.seed), trial.config["tested"])


def finetune_settings(config: Mapping[str, Any]) -> FinetuneSettings:
    """The settings of a training in a trial's configuration."""
    known = FinetuneSettings.model_fields
    return build(FinetuneSettings, {key: config[key] for key in config if key in known})


def run(study: AdaptStudy, trial: Trial, context: TrialContext) -> Outcome:
    """Train on the training rows, choose by dev, and test where the kind of trial says so."""
    c = trial.config
    s = finetune_settings(c)
    task = load_task(s, trial.stream, c["tested"])
    task.check_labels()
    search = Search(task, trial.stream, context, _train_scored(c["kind"], task))
    untrained = task.build_classifier(s, trial.stream, context.device)
    findings = findings_before(untrained, s, task, training_settings(s, len(task.train)))
    if c["kind"] == "search":
        return _run_search(search, s, c, findings)
    return _run_single(search, s, findings, whole=c["kind"] == "collapse")


def _train_scored(kind: str, task: EncodedTask) -> int:
    """Training rows that are scored beside dev: all of them, or as many as dev has."""
    return {"long": len(task.train), "size": 0}.get(kind, len(task.dev))


def _run_search(
    search: Search, s: FinetuneSettings, c: Mapping[str, Any], findings: list[Finding]
) -> Outcome:
    """All cells on dev; the best of them on the test rows, once."""
    axes = {"learning_rate": c["rates"], "batch": c["batches"], "epochs": c["all_epochs"]}
    if c["search"] == "halving":
        halving(search, s, axes)
    else:
        for cell in grid(s, axes):
            search.run_cell(cell)
    factors = {"learning_rate": c["widen_factor"], "batch": BATCH_FACTOR}
    widened = widen(search, s, axes, factors, c["widen"])
    best, task = search.best_cell(), search.task
    documents = {CELLS: json.dumps(list(search.cells.values()))}
    if best["dev_accuracy"] is None:
        reason = f"every cell diverged: {best['problem']}"
        return Outcome({"accuracy": math.nan}, documents=documents, reasons={"accuracy": reason})
    chosen = s.model_copy(update={field: best[name] for field, name in HYPERPARAMETERS.items()})
    model = search.best_model(chosen)
    test, train = predict_all(model, task.test), predict_all(model, task.train)
    collapse, *others = findings_after(model, chosen, task, test)
    metrics = {
        **score_metrics(test),
        "train_accuracy": train.accuracy,
        **_cell_metrics(best),
        **task_sizes(model, task, chosen),
        "dev_majority": majority(task.data.dev),
        "cells": len(search.cells),
        "widened": widened,
    }
    return Outcome(
        metrics,
        cost=search.cost,
        arrays={RIGHT: (test.classes == test.labels).astype(np.uint8)},
        curves=best["curves"],
        documents=documents,
        findings=[*findings, _with_history(collapse, best), *others],
    )


def _run_single(
    search: Search, s: FinetuneSettings, findings: list[Finding], *, whole: bool
) -> Outcome:
    """One training. The test rows are not touched, unless `whole`.

    Then dev and test count as one set, as BoolQ's validation set was published; nothing is chosen
    by the result.
    """
    cell, task = search.run_cell(s), search.task
    documents = {CELLS: json.dumps([cell])}
    if cell["dev_accuracy"] is None:
        reasons = {"dev_accuracy": cell["problem"]}
        return Outcome({"dev_accuracy": math.nan}, documents=documents, reasons=reasons)
    model = search.best_model(s)
    metrics: dict[str, Any] = {
        **_cell_metrics(cell),
        **task_sizes(model, task, s),
        "dev_majority": majority(task.data.dev),
    }
    if whole:
        parts = [predict_all(model, rows) for rows in (task.dev, task.test)]
        both = Predictions(
            np.concatenate([part.logits for part in parts]),
            np.concatenate([part.labels for part in parts]),
        )
        metrics |= _whole_metrics(both)
        findings = [*findings, _with_history(collapse_of(both, task.data.labels), cell)]
    return Outcome(
        metrics, cost=search.cost, curves=cell["curves"], documents=documents, findings=findings
    )


def _whole_metrics(both: Predictions) -> dict[str, Any]:
    rows = len(both.labels)
    return {
        "whole_accuracy": both.accuracy,
        "whole_majority": float(np.bincount(both.labels).max() / rows),
        "whole_rows": rows,
        "whole_top_share": float(np.bincount(both.classes).max() / rows),
    }


def _with_history(collapse: Finding, cell: Cell) -> Finding:
    return with_history(collapse, cell["collapse_first_epoch"], cell["collapsed_evaluations"])


def _cell_metrics(cell: Cell) -> dict[str, Any]:
    """The numbers of the chosen cell as metrics of the trial."""
    return {
        **{name: cell[name] for name in CELL_METRICS},
        "chosen_batch": cell["batch"],
        "chosen_epochs": cell["epochs"],
        "best_epoch": cell["best_step"] / cell["epoch_steps"],
        "last_top_share": cell["top_share"],
    }
