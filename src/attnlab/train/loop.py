"""The loop: step after step, evaluation and checkpoints between them, from where it was left.

    train(model, batches, settings, checkpoints=folder)

Run twice it does nothing new; killed at any instant and run again it ends in the same weights, the
same optimizer and the same log, bit for bit (same machine, versions and number of threads). What a
step needs is a function of its number (batch, learning rate, random stream) or is in the
checkpoint (weights, buffers, optimizer, log).
"""

import math
import time
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attnlab.core.errors import UsageError
from attnlab.train.atomic_folder import lock_folder
from attnlab.train.batch import Batches, fingerprint, map_tensors
from attnlab.train.checkpoint import (
    LOG,
    Checkpoint,
    CheckpointWarning,
    Snapshot,
    State,
    latest_checkpoint,
    prune_checkpoints,
)
from attnlab.train.determinism import environment, isolate_torch_state, seed_step
from attnlab.train.log import MetricLog, parse_log
from attnlab.train.optimizer import build_optimizer
from attnlab.train.ranks import Ranks
from attnlab.train.result import Ending, Hooks, Progress, TrainResult
from attnlab.train.schedule import learning_rate
from attnlab.train.settings import TrainSettings
from attnlab.train.update import Loss, Update, Updater, nll

RESERVED_NAMES = frozenset(
    {"step", "loss", "learning_rate", "gradient_norm", "tokens"}
)  # of the log


def train(  # noqa: PLR0913  (what a training is made of)
    model: nn.Module,
    batches: Batches,
    settings: TrainSettings,
    *,
    loss: Loss = nll,
    checkpoints: Path | None = None,
    hooks: Hooks | None = None,
    ranks: Ranks | None = None,
) -> TrainResult:
    """Train the model in place, from the newest checkpoint if the folder has one.

    `ranks`: the processes that share each batch; every one calls this with the same arguments, the
    first one writes.
    `loss(model, batch)` gives the sum of what is to be made small and how many terms it has. The
    model is left in evaluation mode.
    """
    ranks = ranks or Ranks()
    ranks.prepare_model(model)
    updater = Updater(model, build_optimizer(model, settings), loss, settings, ranks)
    with ExitStack() as stack:
        stack.enter_context(ranks.translate_errors())
        if checkpoints is not None and ranks.is_main:
            stack.enter_context(lock_folder(checkpoints))
        stack.enter_context(isolate_torch_state(updater.device, settings.deterministic))
        stack.callback(model.eval)
        return _Loop(updater, batches, checkpoints, hooks or Hooks()).run()


class _Loop:
    """One call of `train`; its state is replaced after each step, never edited."""

    def __init__(
        self, updater: Updater, batches: Batches, folder: Path | None, hooks: Hooks
    ) -> None:
        self.updater, self.batches, self.folder, self.hooks = updater, batches, folder, hooks
        self.model, self.settings, self.device = updater.model, updater.settings, updater.device
        self.ranks = updater.ranks
        self.here = environment(self.device, self.ranks.size, self.ranks.shards)
        self.state = State(settings=self.settings.identity(), environments=(self.here,))
        self.log = MetricLog()
        self.stored = 0  # the step of the newest checkpoint
        self.warm = False  # the first step of a process compiles and allocates: not timed
        self.batch: Any = None
        self.following: Any = None

    def run(self) -> TrainResult:
        """All steps that are left."""
        self._resume()
        self.ranks.check_same_start(self.state.step)
        self.model.train()
        while self.state.step < self.settings.steps:
            if self.hooks.stop is not None and self.ranks.any_rank(self.hooks.stop()):
                self.ranks.broadcast_buffers(self.model)
                self._save()
                return self._trained("stopped")
            update = self._step()
            if update.problem:
                return self._trained("diverged", update.problem)
            self._after(update)
        return self._trained("done")

    def _resume(self) -> None:
        if self.folder is None:
            return
        found = latest_checkpoint(self.folder)
        if found is not None:
            _check_same(found, self.settings, self.batches)
            found.load_model(self.model)
            found.load_optimizer(self.model, self.updater.optimizer)
            self.state = _with_environment(found.state, self.here)
            self.stored = found.state.step
        beside = self.folder / LOG if self.ranks.is_main else None
        self.log = MetricLog(beside, found.read(LOG) if found else b"")

    def _step(self) -> Update:
        step = self.state.step
        self.batch = self._fetch(step) if self.following is None else self.following
        seed_step(self.settings.seed, step, self.device, self.ranks.rank)
        began = time.perf_counter()
        self.updater.start(self.batch)
        # made while a GPU is busy with the one before
        self.following = self._fetch(step + 1) if step + 1 < self.settings.steps else None
        update = self.updater.finish(step, learning_rate(step, self.settings))
        if not update.problem:
            self._count(update, time.perf_counter() - began)
        return update

    def _fetch(self, step: int) -> Any:
        batch = self.batches.batch(step)
        return map_tensors(batch, lambda tensor: tensor.to(self.device, non_blocking=True))

    def _count(self, update: Update, seconds: float) -> None:
        timed = {
            "seconds": self.state.seconds + seconds,
            "timed_tokens": self.state.timed_tokens + update.scored,
        }
        self.state = self.state.model_copy(
            update={
                "step": self.state.step + 1,
                "tokens": self.state.tokens + update.scored,
                **(timed if self.warm else {}),
            }
        )
        self.warm = True

    def _after(self, update: Update) -> None:
        """Evaluation, the line of the log, the checkpoint: in this order, so that each is once."""
        done = self.state.step
        line: dict[str, float | int | None] = {
            "step": done,
            "loss": update.loss,
            "learning_rate": learning_rate(done - 1, self.settings),
            "gradient_norm": update.gradient_norm,
            "tokens": self.state.tokens,
        }
        improved, evaluates = False, self.settings.is_due(self.settings.evaluate_every, done)
        if evaluates or self.settings.is_due(self.settings.checkpoint_every, done):
            self.ranks.broadcast_buffers(self.model)
        if self.hooks.evaluate and evaluates:
            found = self._evaluate()
            improved = self.ranks.decide(self._note_best(found["value"]))
            line |= {name: v if math.isfinite(v) else None for name, v in found.items()}
        self.log.add(line)
        if improved or self.settings.is_due(self.settings.checkpoint_every, done):
            self._save()
        if self.hooks.progress is not None and self.ranks.is_main:
            self.hooks.progress(Progress(done, self.settings.steps, update.loss, self._speed()))

    def _evaluate(self) -> dict[str, float]:
        assert self.hooks.evaluate is not None
        self.model.eval()
        with torch.no_grad():
            found = self.ranks.run(self.model, self.hooks.evaluate)
        self.model.train()
        named = dict(found) if isinstance(found, Mapping) else {"value": float(found)}
        if "value" not in named or not RESERVED_NAMES.isdisjoint(named):
            raise UsageError(f"evaluate: needs a 'value', and no {' or '.join(sorted(LINE))}")
        return named

    def _note_best(self, value: float) -> bool:
        least = self.state.best_value
        if not math.isfinite(value) or (least is not None and value >= least):
            return False
        best = {"best_step": self.state.step, "best_value": value}
        self.state = self.state.model_copy(update=best)
        return True

    def _save(self) -> None:
        if self.folder is None or self.stored == self.state.step:
            return
        self.state = self.state.model_copy(update={"data": fingerprint(self.batch)})
        snapshot = Snapshot(self.state, self.model, self.updater.optimizer, self.log.data)
        self.ranks.save_checkpoint(self.folder, snapshot)
        self.stored = self.state.step
        if self.ranks.is_main:
            prune_checkpoints(self.folder, self.settings.keep, self.stored)

    def _speed(self) -> float | None:
        return self.state.timed_tokens / self.state.seconds if self.state.seconds else None

    def _trained(self, ending: Ending, problem: str = "") -> TrainResult:
        return TrainResult(
            ending=ending,
            steps=self.state.step,
            tokens=self.state.tokens,
            best_step=self.state.best_step,
            best_value=self.state.best_value,
            tokens_per_second=self._speed(),
            problem=problem,
            bit_comparable=len(self.state.environments) == 1,
            log=parse_log(self.log.data),
        )


def _check_same(found: Checkpoint, settings: TrainSettings, batches: Batches) -> None:
    """The checkpoint must be of this training: same settings, same data in the same order."""
    ours = settings.identity()
    theirs = TrainSettings().identity() | found.state.settings  # a later setting: its default
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise UsageError(
                f"{found.path}: trained with {name} = {theirs.get(name)}, not {ours.get(name)}; "
                "another training needs another folder"
            )
    step = found.state.step
    if fingerprint(batches.batch(step - 1)) != found.state.data:
        raise UsageError(
            f"{found.path}: trained on other data (the batch of step {step} differs); "
            "another training needs another folder"
        )


def _with_environment(state: State, here: dict[str, str | int]) -> State:
    """The state with this environment noted; a new one means that bits need not repeat."""
    if here in state.environments:
        return state
    before = state.environments[-1]
    names = dict.fromkeys([*before, *here])
    differs = ", ".join(
        f"{k} {before.get(k, 1)} -> {here.get(k, 1)}" for k in names if before.get(k) != here.get(k)
    )
    warnings.warn(
        f"resumed elsewhere ({differs}): not bit-comparable with an undisturbed training",
        CheckpointWarning,
        stacklevel=2,
    )
    return state.model_copy(update={"environments": (*state.environments, here)})
