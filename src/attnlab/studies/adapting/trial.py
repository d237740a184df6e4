"""One trial: a search whose best cell is tested once, or a single training scored on dev."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from attnlab.core.config import build
from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.grid_search import GrowingGrid
from attnlab.models.encoder import Encoder, open_encoder
from attnlab.models.tiny_encoder import tiny_encoder
from attnlab.products.finetune.audits import (
    collapse_of,
    findings_after,
    findings_before,
    with_history,
)
from attnlab.products.finetune.settings import FinetuneSettings, load_data
from attnlab.products.finetune.task import EncodedTask, encode_task, initial_encoder, predict_all
from attnlab.products.finetune.trial import score_metrics, task_sizes, training_settings
from attnlab.studies.adapting.evidence import CELLS, RIGHT, Cell
from attnlab.studies.adapting.search import HYPERPARAMETERS, Search, grid, halving, widen
from attnlab.studies.adapting.study import AdaptStudy
from attnlab.tasks.labelled import LabelledData, majority
from attnlab.tasks.made_up_texts import WORDS, made_up_pairs, made_up_texts
from attnlab.training.classify import Predictions
from attnlab.training.tune import check_installed

MADE_UP = {"made-up": made_up_texts, "made-up pairs": made_up_pairs}
# settings that decide the token ids; trainings that agree on them share the encoded task
OF_IDS = {"data", "model", "rows", "scored", "longest", "method", "prefix_length"}
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


def load_task(s: FinetuneSettings, seed: Seed, tested: int = 0) -> EncodedTask:
    """The encoded task of one trial; `tested` is the number of test rows, 0 for all.

    Where not all training rows are wanted, they are the first of an order that the seed shuffles:
    a smaller set is part of every larger one of the same seed, and another seed draws other rows.
    Dev and test are the same for all seeds.
    """
    of_ids = s.model_dump_json(include=OF_IDS)
    task = _encode(of_ids, seed.number if s.rows else 0, tested)
    return replace(task, encoder=initial_encoder(s, task.encoder, seed))


@lru_cache(maxsize=2)
def _encode(of_ids: str, seed: int, tested: int) -> EncodedTask:
    s = FinetuneSettings.model_validate_json(of_ids)
    data = _data(s.data)
    train = data.train
    if s.rows:
        order = Seed(seed).child("rows").numpy_generator().permutation(len(train))
        train = tuple(train[int(i)] for i in order[: s.rows])
    return encode_task(s, replace(data.sample(0, s.scored, tested), train=train), _encoder(s.model))


@lru_cache(maxsize=2)
def _data(name: str) -> LabelledData:
    return MADE_UP[name]() if name in MADE_UP else load_data(FinetuneSettings(data=name))


@lru_cache(maxsize=2)
def _encoder(name: str) -> Encoder:
    return tiny_encoder(WORDS) if name == "tiny" else open_encoder(name)


def run(study: AdaptStudy, trial: Trial, context: TrialContext) -> Outcome:
    """Train on the training rows and choose by dev; the kind of trial says what is tested.

    search      the best cell, on the test rows, once
    collapse    the one training, on dev and test as one set, as BoolQ's validation set was
                published; nothing is chosen by the result
    long, size  nothing
    """
    c = trial.config
    kind, s = c["kind"], finetune_settings(c)
    task = load_task(s, trial.stream, c["tested"])
    task.check_labels()
    # training rows that are scored beside dev: all of them, none, or as many as dev has
    train_scored = {"long": len(task.train), "size": 0}.get(kind, len(task.dev))
    search = Search(task, trial.stream, context, train_scored)
    untrained = task.build_classifier(s, trial.stream, context.device)
    findings = findings_before(untrained, s, task, training_settings(s, len(task.train)))
    metrics = _run_cells(search, s, c)
    best, documents = search.best_cell(), {CELLS: json.dumps(list(search.cells.values()))}
    if best["dev_accuracy"] is None:
        metric, why = "dev_accuracy", best["problem"]
        if kind == "search":
            metric, why = "accuracy", f"every cell diverged: {why}"
        return Outcome({metric: math.nan}, documents=documents, reasons={metric: why})
    chosen = s.model_copy(update={field: best[name] for field, name in HYPERPARAMETERS.items()})
    model, arrays = search.best_model(chosen), {}
    metrics |= {
        **_cell_metrics(best),
        **task_sizes(model, task, chosen),
        "dev_majority": majority(task.data.dev),
    }
    history = best["collapse_first_epoch"], best["collapsed_evaluations"]
    if kind == "search":
        test, train = predict_all(model, task.test), predict_all(model, task.train)
        metrics |= {**score_metrics(test), "train_accuracy": train.accuracy}
        arrays = {RIGHT: (test.classes == test.labels).astype(np.uint8)}
        collapse, *others = findings_after(model, chosen, task, test)
        findings += [with_history(collapse, *history), *others]
    elif kind == "collapse":
        dev, test = predict_all(model, task.dev), predict_all(model, task.test)
        logits = np.concatenate([dev.logits, test.logits])
        both = Predictions(logits, np.concatenate([dev.labels, test.labels]))
        metrics |= _whole_metrics(both)
        findings.append(with_history(collapse_of(both, task.data.labels), *history))
    return Outcome(
        metrics,
        cost=search.cost,
        arrays=arrays,
        curves=best["curves"],
        documents=documents,
        findings=findings,
    )


def _run_cells(search: Search, s: FinetuneSettings, c: Mapping[str, Any]) -> dict[str, Any]:
    """Train every cell of a search, with its metrics, or the only one of a single training."""
    if c["kind"] != "search":
        search.run_cell(s)
        return {}
    axes = {"learning_rate": c["rates"], "batch": c["batches"], "epochs": c["all_epochs"]}
    if c["search"] == "halving":
        halving(search, s, axes)
    else:
        for cell in grid(s, axes):
            search.run_cell(cell)
    rates, batches = set(c["rates"]), set(c["batches"])
    rows = (1, len(search.task.train))
    grids = {
        "learning_rate": GrowingGrid(rates, c["widen_factor"], c["widen"], digits=3),
        "batch": GrowingGrid(batches, BATCH_FACTOR, c["widen"], digits=3, limits=rows),
    }
    widened = widen(search, s, grids)
    return {"cells": len(search.cells), "widened": widened}


def _whole_metrics(both: Predictions) -> dict[str, Any]:
    rows = len(both.labels)
    return {
        "whole_accuracy": both.accuracy,
        "whole_majority": float(np.bincount(both.labels).max() / rows),
        "whole_rows": rows,
        "whole_top_share": float(np.bincount(both.classes).max() / rows),
    }


def _cell_metrics(cell: Cell) -> dict[str, Any]:
    """The numbers of the chosen cell as metrics of the trial."""
    return {
        **{name: cell[name] for name in CELL_METRICS},
        "chosen_batch": cell["batch"],
        "chosen_epochs": cell["epochs"],
        "best_epoch": cell["best_step"] / cell["epoch_steps"],
        "last_top_share": cell["top_share"],
    }
