"""Distillation losses: a student learns a teacher's texts or its probabilities.

With t and s the teacher's and the student's probabilities softmax(logits / T):

    sequence          −log s(y)                        y: a text by the teacher or by a person
    forward KL        T² Σ_v t_v (log t_v − log s_v)   the student must cover the teacher's tokens
    reverse KL        T² Σ_v s_v (log s_v − log t_v)   the student must avoid all other tokens
    Jensen–Shannon    T² ½ [KL(t ‖ m) + KL(s ‖ m)]     m = (t + s)/2

A student that equals its teacher has loss and gradient 0 in the last three; in the first, its loss
is the teacher's. T² keeps the gradient's size as T grows (Hinton, Vinyals and Dean 2015).
Only scored positions count: in the targets, prompt and padding are IGNORE.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.core.tokens import IGNORE

Divergence = Callable[[Tensor, Tensor, float], Tensor]


def _log_probabilities(logits: Tensor, temperature: float) -> Tensor:
    return functional.log_softmax(logits.float() / temperature, dim=-1)


def forward_kl(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """T² KL(teacher ‖ student) at every position, in nats; logits (…, vocab)."""
    s, t = _log_probabilities(student, temperature), _log_probabilities(teacher, temperature)
    return temperature**2 * (t.exp() * (t - s)).sum(dim=-1)


def reverse_kl(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """T² KL(student ‖ teacher) at every position, in nats; logits (…, vocab)."""
    return forward_kl(teacher, student, temperature)


def jensen_shannon(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> Tensor:
    """T² ½ [KL(teacher ‖ m) + KL(student ‖ m)], m their mean; at most T² ln 2."""
    s, t = _log_probabilities(student, temperature), _log_probabilities(teacher, temperature)
    mean = torch.logaddexp(s, t) - math.log(2)
    halves = t.exp() * (t - mean) + s.exp() * (s - mean)
    return temperature**2 * 0.5 * halves.sum(dim=-1)


DIVERGENCES: dict[str, Divergence] = {
    "forward": forward_kl,
    "reverse": reverse_kl,
    "jsd": jensen_shannon,
}


def logits_of(model: nn.Module, batch: Any) -> Tensor:
    """Compute logits (batch, pos, vocab) of a model of ours or of transformers, with gradients."""
    if hasattr(model, "nll"):
        return model(batch.ids, batch.key_padding_mask)
    mask = None if batch.key_padding_mask is None else (~batch.key_padding_mask).long()
    return model(input_ids=batch.ids, attention_mask=mask, use_cache=False).logits


def sequence_nll(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    """Σ −log s(y) over the scored positions, and how many there are: training on texts."""
    logits = logits_of(model, batch).flatten(0, 1).float()
    targets = batch.targets.flatten()
    total = functional.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum")
    return total, (targets != IGNORE).sum()


@dataclass(frozen=True)
class DistillationLoss:
    """A loss for the training loop: the divergence from the teacher's probabilities.

    `divergence` is a key of DIVERGENCES; `temperature` is T.
    """

    teacher: nn.Module
    divergence: str = "forward"
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if self.divergence not in DIVERGENCES:
            known = suggest(self.divergence, list(DIVERGENCES))
            raise UsageError(f"unknown divergence {self.divergence!r}: {known}")
        if not self.temperature > 0:
            raise UsageError(f"temperature must be above 0, got {self.temperature}")

    def __call__(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """Sum the divergence over the scored positions; return (sum, number of positions)."""
        self.teacher.eval()  # with dropout the teacher would change at every step
        scored = batch.targets != IGNORE
        with torch.no_grad():
            teacher = logits_of(self.teacher, batch)[scored]
        student = logits_of(model, batch)[scored]
        ours, theirs = student.shape[-1], teacher.shape[-1]
        if ours != theirs:
            raise UsageError(
                f"the student has {ours:,} tokens and the teacher {theirs:,}: their probabilities "
                "cannot be compared; distil on the teacher's texts instead"
            )
        divergences = DIVERGENCES[self.divergence](student, teacher, self.temperature)
        return divergences.sum(), scored.sum()
