"""Hyperparameter search: every cell is trained to its end, dev chooses one of them.

    grid      every cell
    halving   every cell with the fewest epochs, the best third of them with more epochs, …
    widen     after either: while the best cell lies at an end of a grid, one value beyond it

A cell is one combination of hyperparameters; its training has its own schedule and starts from the
same weights as every other. The best cell has the highest dev accuracy at the best of its
evaluations, and the lowest dev loss among equals. A cell is written to the checkpoint folder when
it is done, so a search that is stopped loses one cell at most.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import torch

from attnlab.core.config import content_hash
from attnlab.core.files import read_json, write_json
from attnlab.core.seeds import Seed
from attnlab.lab.trial import TrialContext
from attnlab.measure.grid_search import GrowingGrid
from attnlab.models.encoder import Classifier
from attnlab.products.finetune.audits import CollapseWatch, first_epoch_collapse
from attnlab.products.finetune.settings import FinetuneSettings
from attnlab.products.finetune.task import EncodedTask, predict_all
from attnlab.products.finetune.trial import (
    steps_per_epoch,
    train_classifier,
    training_settings,
)
from attnlab.studies.adapting.evidence import Cell
from attnlab.training.result import TrainResult

HALVING_FACTOR = 3  # one cell of so many goes on to the next rung
BESIDE_DEV = ("train_accuracy", "own_loss", "collapsed", "top_share")  # where it was evaluated
HYPERPARAMETERS = {"learning_rate": "rate", "batch": "batch", "epochs": "epochs"}  # in a cell


@dataclass
class Search:
    """The cells of one trial: same data, same initial weights, same order of the rows."""

    task: EncodedTask
    seed: Seed
    context: TrialContext
    train_scored: int = 0  # training rows to score at every evaluation, beside dev
    cells: dict[str, Cell] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)  # of the best cell so far
    best: tuple[str, Classifier] | None = None  # key and model of the best cell, where trained here

    def run_cell(self, s: FinetuneSettings) -> Cell:
        """Train a cell, or read it if it was trained before the search was stopped."""
        key = content_hash(s.model_dump(mode="json"), 16)
        folder = self.context.checkpoints
        path = None if folder is None else folder / f"{key}.json"
        if path is not None and path.is_file():
            self.cells[key] = read_json(path)
        else:
            self.cells[key], model = self._train(s, key)
            if path is not None:
                write_json(path, self.cells[key])
            if self.best_cell()["key"] == key:
                self.best = (key, model)
        return self.cells[key]

    def best_cell(self) -> Cell:
        """The best cell so far."""
        return max(self.cells.values(), key=_rank)

    def best_model(self, s: FinetuneSettings) -> Classifier:
        """The model of the best cell; trained again where the search was resumed after it."""
        key = self.best_cell()["key"]
        if self.best is None or self.best[0] != key:
            self.best = (key, self._train(s, key)[1])
        return self.best[1]

    def _train(self, s: FinetuneSettings, key: str) -> tuple[Cell, Classifier]:
        clock = _Clock(self.context.device)
        task, context = self.task, replace(self.context, checkpoints=None)
        model = task.build_classifier(s, self.seed, context.device)

        def score_train() -> dict[str, float]:
            if not self.train_scored:
                return {}
            train = predict_all(model, task.train, self.train_scored)
            return {"train_accuracy": train.accuracy, "own_loss": train.loss}

        settings = training_settings(s, len(task.train)).model_copy(
            update={"seed": self.seed.child("steps").number}
        )
        watch = CollapseWatch(task.data.labels, score_train)
        result = train_classifier(model, task, settings, self.seed, context, watch)
        names = ("rate", "batch", "epochs", "optimizer", "momentum")
        hyperparameters = {name: getattr(s, name) for name in names}
        scores = _describe(result, steps_per_epoch(s, len(task.train)))
        cell = {"key": key, **hyperparameters, **scores}
        if _rank(cell) >= max(map(_rank, self.cells.values()), default=(-1.0, 0.0)):
            self.cost = clock.cost(settings.steps)
        return cell, model


def grid(s: FinetuneSettings, axes: dict[str, Sequence[Any]]) -> list[FinetuneSettings]:
    """Every combination of the values of the axes."""
    return [
        s.model_copy(update=dict(zip(axes, values, strict=True)))
        for values in product(*axes.values())
    ]


def halving(search: Search, s: FinetuneSettings, axes: dict[str, Sequence[Any]]) -> None:
    """Successive halving: each rung trains the best third of the last one with more epochs."""
    remaining = grid(s, {name: values for name, values in axes.items() if name != "epochs"})
    for epochs in sorted(axes["epochs"]):
        cells = [cell.model_copy(update={"epochs": epochs}) for cell in remaining]
        ranks = [_rank(search.run_cell(cell)) for cell in cells]
        order = sorted(range(len(cells)), key=lambda i: ranks[i], reverse=True)
        remaining = [cells[i] for i in order[: max(1, len(cells) // HALVING_FACTOR)]]


def widen(search: Search, s: FinetuneSettings, grids: dict[str, GrowingGrid]) -> int:
    """Try values beyond an end of a grid while the best cell lies there; returns how many.

    The first grid that has such a value grows; every other hyperparameter is that of the best cell.
    """
    while (best := search.best_cell())["dev_accuracy"] is not None:
        here = {field: best[name] for field, name in HYPERPARAMETERS.items()}
        beyond = ((name, grid.beyond([here[name]])) for name, grid in grids.items())
        new = next(({name: value} for name, value in beyond if value is not None), None)
        if new is None:
            break
        search.run_cell(s.model_copy(update=here | new))
    return sum(grid.added for grid in grids.values())


def _rank(cell: Cell) -> tuple[float, float]:
    """Higher is better; a training that diverged comes last."""
    if cell["dev_accuracy"] is None:
        return (-1.0, -math.inf)
    return (cell["dev_accuracy"], -cell["dev_loss"])


def _describe(result: TrainResult, epoch_steps: int) -> Cell:
    """Best dev scores (None where it diverged), learning curves, signs of a collapse."""
    lines = result.evaluations
    ended = lines if result.ending != "diverged" else []
    best = next((line for line in ended if line["step"] == result.best_step), {})
    last = lines[-1] if lines else {}
    curves = ["dev_loss", "dev_accuracy", *(name for name in BESIDE_DEV if name in last)]
    return {
        "dev_accuracy": best.get("dev_accuracy"),
        "dev_loss": best.get("dev_loss"),
        "best_step": result.best_step,
        "steps": result.steps,
        "epoch_steps": epoch_steps,
        "problem": result.problem,
        "collapse_first_epoch": first_epoch_collapse(lines, epoch_steps),
        "collapsed_evaluations": sum(int(line["collapsed"]) for line in lines),
        "evaluations": len(lines),
        "top_share": last.get("top_share"),
        "last_dev_accuracy": last.get("dev_accuracy"),
        "curves": result.curves(**{name: name for name in curves}),
    }


class _Clock:
    """Seconds of a training with its evaluations; on a GPU, also the peak of memory it adds."""

    def __init__(self, device: str) -> None:
        self.cuda, self.started, self.allocated = device == "cuda", time.perf_counter(), 0
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
            self.allocated = torch.cuda.memory_allocated()

    def cost(self, steps: int) -> dict[str, float]:
        """The cost of the trial, by name."""
        seconds = time.perf_counter() - self.started
        cost = {"train_seconds": seconds, "milliseconds_a_step": 1000 * seconds / steps}
        if self.cuda:
            cost["gpu_peak_mb"] = (torch.cuda.max_memory_allocated() - self.allocated) / (1 << 20)
        return cost
