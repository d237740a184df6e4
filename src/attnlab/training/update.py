"""One step: sum the loss over micro-batches, divide the gradient by the count, clip, update.

The gradient of the summed loss is accumulated and divided once by the number of scored targets of
the whole step, so that one micro-batch or eight give the same step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from attnlab.core.errors import UsageError
from attnlab.training.optimizer import first_non_finite
from attnlab.training.ranks import Ranks
from attnlab.training.settings import TrainSettings
from attnlab.training.tensors import local_tensor

Loss = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]  # (model, batch) -> (sum, count)


def nll(model: Any, batch: Any) -> tuple[Tensor, Tensor]:
    """Σ -log p over the scored targets of a language model, and how many there are."""
    return model.nll(batch.ids, batch.targets, batch.key_padding_mask)


@dataclass(frozen=True)
class Update:
    """The numbers of one step. With a `problem`, weights and optimizer were left unchanged."""

    loss: float
    gradient_norm: float  # before clipping
    scored: int
    problem: str = ""


class Updater:
    """One step in two halves, so that the CPU can prepare the next batch while a GPU computes."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        loss: Loss,
        settings: TrainSettings,
        ranks: Ranks | None = None,
    ) -> None:
        self.model, self.optimizer, self.settings = model, optimizer, settings
        self.ranks = ranks or Ranks()
        if settings.compile and self.ranks.shards > 1:
            raise UsageError("compile: not for a sharded training; leave one of the two out")
        self.loss = torch.compile(loss) if settings.compile else loss
        self.device = next(model.parameters()).device
        self.total = self.scored = self.norm = torch.zeros(())

    def start(self, batch: Any) -> None:
        """Queue the forward and backward passes of a batch, without waiting for a GPU."""
        sums: list[Tensor] = []
        counts: list[Tensor] = []
        for micro_batch, counts_in in self.ranks.micro_batches(batch, self.settings.accumulate):
            with torch.autocast(
                self.device.type, torch.bfloat16, enabled=self.settings.precision == "bfloat16"
            ):
                total, scored = self.ranks.run(self.model, lambda m, b=micro_batch: self.loss(m, b))
            if not counts_in:  # computed only because the other processes wait for this one
                (0 * total).backward()
                continue
            total.backward()
            sums.append(total.detach())
            counts.append(scored.detach())
        totals = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        if sums:
            totals = torch.stack(sums).sum(), torch.stack(counts).sum()
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.total, self.scored = self.ranks.all_reduce(parameters, totals)
        self.norm = self.ranks.gradient_norm(self._gradients())

    def finish(self, step: int, rate: float) -> Update:
        """Wait for loss and gradient norm; update the weights if both are finite."""
        scored = int(self.scored.item())
        if scored == 0:
            raise UsageError(f"step {step + 1}: no token of the batch is scored")
        loss, norm = self.total.item() / scored, self.norm.item() / scored
        problem = self._problem(step, loss, norm)
        if not problem:
            clip = self.settings.clip
            scale = clip / norm if 0 < clip < norm else 1.0
            local = [local_tensor(g) for g in self._gradients()]
            # all in one call; torch has no public function for it
            torch._foreach_mul_(local, scale / scored)  # pyright: ignore[reportPrivateUsage]
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return Update(loss, norm, scored, problem)

    def _gradients(self) -> list[Tensor]:
        groups = self.optimizer.param_groups
        return [p.grad for group in groups for p in group["params"] if p.grad is not None]

    def _problem(self, step: int, loss: float, norm: float) -> str:
        if not math.isfinite(loss):
            return f"step {step + 1}: the loss is {loss}"
        if not math.isfinite(norm):
            where = first_non_finite(self.model, self.ranks.any_rank) or "all parameters together"
            return f"step {step + 1}: the gradient of {where} is not finite"
        return ""
