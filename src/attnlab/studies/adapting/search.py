"""Cells of a search: each trained to its end, compared on dev, one of them chosen.

    grid      every cell
    halving   every cell with the fewest epochs, the best third of them with the next more, …

A cell is a training of its own, from the same start, with its own schedule. The best is the one of
highest dev accuracy, of lower dev loss among equals, at the best of its evaluations. What a cell
found is written down as soon as it is known, so a search that is stopped loses one cell at most.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import torch

from attnlab.core.config import content_hash
from attnlab.core.files import read_json, write_json
from attnlab.core.seeds import Seed
from attnlab.lab.trial import TrialContext, TrialStopped
from attnlab.models.encoder import Classifier
from attnlab.products.finetune.settings import FinetuneSettings
from attnlab.products.finetune.watch import Watch, first_epoch
from attnlab.products.finetune.work import SCORED_AT_ONCE, Prepared, an_epoch, curves, training
from attnlab.tasks.encoder_inputs import ShuffledBatches
from attnlab.train.classify import FitResult, Predictions, fit, predict
from attnlab.train.result import Hooks
from attnlab.train.tune import build_classifier

KEPT = 3  # of so many cells one goes on, when halving
Cell = dict[str, Any]


@dataclass
class Search:
    """The cells of one trial: same data, same start, same order of the rows."""

    p: Prepared
    seed: Seed
    context: TrialContext
    with_train: bool = False  # score the training rows too, whenever dev is scored
    best: tuple[str, Classifier] | None = None
    found: dict[str, Cell] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)  # of the cell chosen last

    def cell(self, s: FinetuneSettings) -> Cell:
        """What this cell found, from what was written down where it was."""
        key = content_hash(s.model_dump(mode="json"), 16)
        path = self._path(key)
        if path is not None and path.is_file():
            self.found[key] = read_json(path)
        else:
            self.found[key], model = self._trained(s, key)
            if path is not None:
                write_json(path, self.found[key])
            if self.chosen()["key"] == key:
                self.best = (key, model)
        return self.found[key]

    def chosen(self) -> Cell:
        """The best cell so far."""
        return max(self.found.values(), key=_goodness)

    def model(self, s: FinetuneSettings) -> Classifier:
        """The chosen cell's own weights; trained once more where the search was stopped since."""
        key = self.chosen()["key"]
        if self.best is None or self.best[0] != key:
            self.best = (key, self._trained(s, key)[1])
        return self.best[1]

    def _path(self, key: str) -> Path | None:
        folder = self.context.checkpoints
        return None if folder is None else folder / f"{key}.json"

    def _trained(self, s: FinetuneSettings, key: str) -> tuple[Cell, Classifier]:
        clock = _Clock(self.context.device)
        model = build_classifier(self.p.encoder, len(self.p.data.labels), s.tuning(), self.seed)
        model = model.to(self.context.device)
        settings = training(s, len(self.p.train)).model_copy(
            update={"seed": self.seed.child("steps").number}
        )
        heard = Watch(self.p.data.labels)
        done = fit(
            model,
            ShuffledBatches(self.p.train, s.batch, self.seed.child("order")),
            settings,
            dev=lambda: self.p.dev.batches_by_length(SCORED_AT_ONCE),
            hooks=Hooks(
                stop=self.context.stopping,
                progress=lambda at: self.context.step(
                    at.step, at.steps, f"rate {s.rate:g}, loss {at.loss:.3f}{heard.now}"
                ),
            ),
            on_predictions=self._heard(heard, model),
        )
        if done.trained.ending == "stopped":
            raise TrialStopped
        cell = {"key": key, **_described(s), **_result(done, an_epoch(s, len(self.p.train)))}
        if _goodness(cell) >= max(map(_goodness, self.found.values()), default=(-1.0, 0.0)):
            self.cost = clock.cost(settings.steps)
        return cell, model

    def _heard(self, watch: Watch, model: Classifier) -> Callable[[Predictions], dict[str, float]]:
        def heard(dev: Predictions) -> dict[str, float]:
            line = watch(dev)
            if self.with_train:
                own = predict(model, self.p.train.batches_by_length(SCORED_AT_ONCE))
                line |= {"train_accuracy": own.accuracy, "own_loss": own.loss}
            return line

        return heard


def grid(s: FinetuneSettings, axes: dict[str, Sequence[Any]]) -> list[FinetuneSettings]:
    """Every combination of the axes' values put into the settings."""
    return [
        s.model_copy(update=dict(zip(axes, values, strict=True)))
        for values in product(*axes.values())
    ]


def halving(search: Search, s: FinetuneSettings, axes: dict[str, Sequence[Any]]) -> None:
    """Rungs of ever more epochs; of three cells one goes on."""
    rungs = sorted(axes["epochs"])
    alive = grid(s, {name: values for name, values in axes.items() if name != "epochs"})
    for rung in rungs:
        now = [cell.model_copy(update={"epochs": rung}) for cell in alive]
        scores = [_goodness(search.cell(cell)) for cell in now]
        order = sorted(range(len(now)), key=lambda i: scores[i], reverse=True)
        alive = [now[i] for i in order[: max(1, len(now) // KEPT)]]


def _goodness(cell: Cell) -> tuple[float, float]:
    """Higher is better; what diverged is worse than anything."""
    if cell["dev_accuracy"] is None:
        return (-1.0, -math.inf)
    return (cell["dev_accuracy"], -cell["dev_loss"])


def _described(s: FinetuneSettings) -> Cell:
    return {
        "rate": s.rate,
        "batch": s.batch,
        "epochs": s.epochs,
        "optimizer": s.optimizer,
        "momentum": s.momentum,
    }


def _result(done: FitResult, epoch: int) -> Cell:
    """Best dev numbers, the curves, what the audit collapse said; None where it diverged."""
    lines = done.evaluations
    best = next((line for line in lines if line["step"] == done.best_step), None)
    over = done.trained.ending == "diverged"
    return {
        "dev_accuracy": None if over or best is None else best["dev_accuracy"],
        "dev_loss": None if over or best is None else best["dev_loss"],
        "best_step": done.best_step,
        "steps": done.trained.steps,
        "epoch_steps": epoch,
        "problem": done.trained.problem,
        "collapse_first_epoch": first_epoch(lines, epoch),
        "collapsed_evaluations": sum(int(line["collapsed"]) for line in lines),
        "evaluations": len(lines),
        "top_share": lines[-1]["top_share"] if lines else None,
        "last_dev_accuracy": lines[-1]["dev_accuracy"] if lines else None,
        "curves": curves(done.trained)
        | {
            name: [float(line[name]) for line in lines]
            for name in ("train_accuracy", "own_loss", "collapsed", "top_share")
            if lines and name in lines[0]
        },
    }


class _Clock:
    """Seconds of a training, dev included; on a GPU the memory it adds to what was there."""

    def __init__(self, device: str) -> None:
        self.cuda, self.began, self.held = device == "cuda", time.perf_counter(), 0
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
            self.held = torch.cuda.memory_allocated()

    def cost(self, steps: int) -> dict[str, float]:
        """By name, for the trial's cost."""
        seconds = time.perf_counter() - self.began
        found = {"train_seconds": seconds, "milliseconds_a_step": 1000 * seconds / steps}
        if self.cuda:
            found["gpu_peak_mb"] = (torch.cuda.max_memory_allocated() - self.held) / (1 << 20)
        return found
