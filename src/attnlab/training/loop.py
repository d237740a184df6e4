"""The training loop: optimizer steps with evaluations and checkpoints between them.

    train(model, batches, settings, checkpoints=folder)

A finished training that is run again does nothing. One that was killed at any instant and is run
again ends with the same weights, optimizer state and log, bit for bit (on the same machine, with
the same versions and number of threads). Everything a step needs is a function of its number
(batch, learning rate, random stream) or is in the checkpoint (weights, buffers, optimizer, log).
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
from attnlab.training.atomic_folder import lock_folder
from attnlab.training.batch import Batches, fingerprint, map_tensors
from attnlab.training.checkpoint import (
    LOG,
    Checkpoint,
    CheckpointWarning,
    Snapshot,
    State,
    latest_checkpoint,
    prune_checkpoints,
)
from attnlab.training.determinism import environment, isolate_torch_state, seed_step
from attnlab.training.log import MetricLog, parse_log
from attnlab.training.optimizer import build_optimizer
from attnlab.training.ranks import Ranks
from attnlab.training.result import Ending, Evaluate, Hooks, Progress, TrainResult
from attnlab.training.schedule import learning_rate
from attnlab.training.settings import TrainSettings
from attnlab.training.update import Loss, Update, Updater, nll

# columns of every line of the log
RESERVED_NAMES = frozenset({"step", "loss", "learning_rate", "gradient_norm", "tokens"})


def train(  # noqa: PLR0913  (the public entry point)
    model: nn.Module,
    batches: Batches,
    settings: TrainSettings,
    *,
    loss: Loss = nll,
    checkpoints: Path | None = None,
    hooks: Hooks | None = None,
    ranks: Ranks | None = None,
) -> TrainResult:
    """Train the model in place, resuming from the newest checkpoint if the folder has one.

    `loss(model, batch)` returns the sum of the losses and the number of terms. `ranks` are the
    processes that share each batch: every one calls this function with the same arguments, and
    rank 0 writes the files. The model is left in evaluation mode.
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
    """One call of `train`; `state` is an immutable record that each step replaces."""

    def __init__(
        self, updater: Updater, batches: Batches, folder: Path | None, hooks: Hooks
    ) -> None:
        self.updater, self.batches, self.folder, self.hooks = updater, batches, folder, hooks
        self.model, self.settings, self.device = updater.model, updater.settings, updater.device
        self.ranks = updater.ranks
        self.environment = environment(self.device, self.ranks.size, self.ranks.shards)
        self.state = State(settings=self.settings.identity(), environments=(self.environment,))
        self.log = MetricLog()
        self.saved_step = 0  # the step of the newest checkpoint
        self.warm = False  # the first step of a process compiles and allocates: not timed
        self.batch: Any = None
        self.next_batch: Any = None

    def run(self) -> TrainResult:
        """Run all remaining steps, until the end, a request to stop, or a divergence."""
        self._resume()
        self.ranks.check_same_start(self.state.step)
        self.model.train()
        while self.state.step < self.settings.steps:
            if self.hooks.stop is not None and self.ranks.any_rank(self.hooks.stop()):
                self.ranks.broadcast_buffers(self.model)
                self._save()
                return self._result("stopped")
            update = self._step()
            if update.problem:
                return self._result("diverged", update.problem)
            self._after(update)
        return self._result("done")

    def _resume(self) -> None:
        if self.folder is None:
            return
        checkpoint = latest_checkpoint(self.folder)
        if checkpoint is not None:
            _check_same_training(checkpoint, self.settings, self.batches)
            checkpoint.load_model(self.model)
            checkpoint.load_optimizer(self.model, self.updater.optimizer)
            self.state = _add_environment(checkpoint.state, self.environment)
            self.saved_step = checkpoint.state.step
        path = self.folder / LOG if self.ranks.is_main else None
        self.log = MetricLog(path, checkpoint.read(LOG) if checkpoint else b"")

    def _step(self) -> Update:
        step = self.state.step
        self.batch = self._fetch(step) if self.next_batch is None else self.next_batch
        seed_step(self.settings.seed, step, self.device, self.ranks.rank)
        began = time.perf_counter()
        self.updater.start(self.batch)
        # prepared while the GPU still computes the current batch
        self.next_batch = self._fetch(step + 1) if step + 1 < self.settings.steps else None
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
        """Evaluate, log, save: in this order, so that a checkpoint holds the other two."""
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
            values = self._evaluate(self.hooks.evaluate)
            improved = self.ranks.decide(self._update_best(values["value"]))
            line |= {name: v if math.isfinite(v) else None for name, v in values.items()}
        self.log.add(line)
        if improved or self.settings.is_due(self.settings.checkpoint_every, done):
            self._save()
        if self.hooks.progress is not None and self.ranks.is_main:
            self.hooks.progress(Progress(done, self.settings.steps, update.loss, self._speed()))

    def _evaluate(self, evaluate: Evaluate) -> dict[str, float]:
        self.model.eval()
        with torch.no_grad():
            answer = self.ranks.run(self.model, evaluate)
        self.model.train()
        values = dict(answer) if isinstance(answer, Mapping) else {"value": float(answer)}
        if "value" not in values or not RESERVED_NAMES.isdisjoint(values):
            raise UsageError(
                f"evaluate: needs a 'value', and no {' or '.join(sorted(RESERVED_NAMES))}"
            )
        return values

    def _update_best(self, value: float) -> bool:
        """Store the value if it is the lowest so far, and tell whether it is."""
        lowest = self.state.best_value
        if not math.isfinite(value) or (lowest is not None and value >= lowest):
            return False
        best = {"best_step": self.state.step, "best_value": value}
        self.state = self.state.model_copy(update=best)
        return True

    def _save(self) -> None:
        if self.folder is None or self.saved_step == self.state.step:
            return
        self.state = self.state.model_copy(update={"data": fingerprint(self.batch)})
        snapshot = Snapshot(self.state, self.model, self.updater.optimizer, self.log.data)
        self.ranks.save_checkpoint(self.folder, snapshot)
        self.saved_step = self.state.step
        if self.ranks.is_main:
            prune_checkpoints(self.folder, self.settings.keep, self.saved_step)

    def _speed(self) -> float | None:
        return self.state.timed_tokens / self.state.seconds if self.state.seconds else None

    def _result(self, ending: Ending, problem: str = "") -> TrainResult:
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


def _check_same_training(checkpoint: Checkpoint, settings: TrainSettings, batches: Batches) -> None:
    """Raise UsageError unless the checkpoint has these settings and these data in this order."""
    ours = settings.identity()
    # a setting that is newer than the checkpoint had its default
    theirs = TrainSettings().identity() | checkpoint.state.settings
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise UsageError(
                f"{checkpoint.path}: trained with {name} = {theirs.get(name)}, "
                f"not {ours.get(name)}; another training needs another folder"
            )
    step = checkpoint.state.step
    if fingerprint(batches.batch(step - 1)) != checkpoint.state.data:
        raise UsageError(
            f"{checkpoint.path}: trained on other data (the batch of step {step} differs); "
            "another training needs another folder"
        )


def _add_environment(state: State, new: dict[str, str | int]) -> State:
    """Add this environment to the state; a new one warns that bits may differ from now on."""
    if new in state.environments:
        return state
    old = state.environments[-1]
    differences = ", ".join(
        f"{name} {old.get(name, 1)} -> {new.get(name, 1)}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )
    warnings.warn(
        f"resumed in another environment ({differences}): "
        "not bit-comparable with an uninterrupted training",
        CheckpointWarning,
        stacklevel=2,
    )
    return state.model_copy(update={"environments": (*state.environments, new)})
