"""The hooks that a caller gives to a training, and the result that it gets back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from torch import nn

Ending = Literal["done", "stopped", "diverged"]
Evaluate = Callable[[nn.Module], float | Mapping[str, float]]


@dataclass(frozen=True)
class Progress:
    """The numbers that a progress bar shows after each step."""

    step: int
    steps: int
    loss: float
    tokens_per_second: float | None  # None until a second step was timed


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Functions that the loop calls between steps; none of them may change the weights.

    evaluate   returns a number to minimise, or a mapping whose "value" is that number; called in
               evaluation mode without gradients every `evaluate_every` steps and after the last
    progress   called after every step
    stop       called before every step; if it returns True, the loop saves a checkpoint and stops
    """

    evaluate: Evaluate | None = None
    progress: Callable[[Progress], None] | None = None
    stop: Callable[[], bool] | None = None


@dataclass(frozen=True)
class TrainResult:
    """How a training ended.

    If it diverged, `problem` names the step; the update of that step was not applied.
    """

    ending: Ending
    steps: int
    tokens: int
    best_step: int | None
    best_value: float | None
    tokens_per_second: float | None  # of the steps alone, without the first of each process
    problem: str
    bit_comparable: bool  # every step ran with the same versions, device and threads
    log: tuple[dict[str, Any], ...]

    @property
    def losses(self) -> tuple[float, ...]:
        """Mean loss of each step, before its update."""
        return tuple(line["loss"] for line in self.log)

    @property
    def last_loss(self) -> float:
        """The mean loss of the last tenth of the steps."""
        return float(np.mean(self.losses[-max(1, len(self.losses) // 10) :]))

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """The lines of the log at which `Hooks.evaluate` was called."""
        return [line for line in self.log if line.get("value") is not None]

    @property
    def cost(self) -> dict[str, float]:
        """The speed, as a trial reports what it cost; empty where no step was timed."""
        return {"tokens_per_second": self.tokens_per_second} if self.tokens_per_second else {}

    def evaluated(self, name: str) -> list[float]:
        """One number of every evaluation: `step`, `value`, or what else `Hooks.evaluate` gave."""
        return [float(line[name]) for line in self.evaluations]

    def loss_curve(self, points: int = 50) -> dict[str, list[float]]:
        """Mean training loss of each of `points` equal parts of the training, and their ends."""
        parts = np.array_split(np.asarray(self.losses), min(points, len(self.losses)))
        return {
            "step": np.cumsum([len(part) for part in parts]).astype(float).tolist(),
            "train_loss": [float(part.mean()) for part in parts],
        }

    def curves(self, **evaluated: str) -> dict[str, list[float]]:
        """`loss_curve`, and beside `dev_step` one number of the evaluations for each name.

        `curves(dev_loss="value")` has the values to minimise as `dev_loss`.
        """
        dev = {name: self.evaluated(number) for name, number in evaluated.items()}
        return {**self.loss_curve(), "dev_step": self.evaluated("step"), **dev}
