"""What goes into a training besides model, data and settings, and what comes out of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

Ending = Literal["done", "stopped", "diverged"]


@dataclass(frozen=True)
class Progress:
    """What a progress bar shows after each step."""

    step: int
    steps: int
    loss: float
    tokens_per_second: float | None  # None until a second step was timed


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """What others do between steps; none of it may change the weights.

    evaluate   a number to make small, or a mapping whose "value" is that number; called in
               evaluation mode without gradients every `evaluate_every` steps and after the last
    progress   told after every step
    stop       asked before every step: True means store a checkpoint and leave
    """

    evaluate: Callable[[nn.Module], float | Mapping[str, float]] | None = None
    progress: Callable[[Progress], None] | None = None
    stop: Callable[[], bool] | None = None


@dataclass(frozen=True)
class TrainResult:
    """How a training ended. Diverged: `problem` names the step, which changed no weight."""

    ending: Ending
    steps: int
    tokens: int
    best_step: int | None
    best_value: float | None
    tokens_per_second: float | None  # of steps alone, without the first of each process
    problem: str
    bit_comparable: bool  # every step ran with the same versions, device and threads
    log: tuple[dict[str, Any], ...]

    @property
    def losses(self) -> tuple[float, ...]:
        """Mean loss of each step, before its update."""
        return tuple(line["loss"] for line in self.log)
