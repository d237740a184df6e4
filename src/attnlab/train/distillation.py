"""What a student can learn from a teacher: its texts, or its probabilities p = softmax(logits / T).

    sequence          −log s(y)                        y: a text, the teacher's or a person's
    forward KL        T² Σ_v t_v (log t_v − log s_v)   the student must cover what the teacher says
    reverse KL        T² Σ_v s_v (log s_v − log t_v)   the student must not say what it would not
    Jensen–Shannon    half of each, against the mean m = (t + s)/2

A student that equals its teacher has loss and gradient 0 in the last three; in the first it has the
teacher's own loss. T² keeps the size of the gradient as T grows (Hinton, Vinyals and Dean 2015).
Only scored positions count: the prompt and the padding are IGNORE in the targets.
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
    """T² KL(student ‖ teacher) at every position, in nats."""
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
    """With gradient, for our models and for those of transformers."""
    if hasattr(model, "nll"):
        return model(batch.ids, batch.key_padding_mask)
    real = None if batch.key_padding_mask is None else (~batch.key_padding_mask).long()
    return model(input_ids=batch.ids, attention_mask=real, use_cache=False).logits


def sequence_nll(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
    """Σ −log s(y) over scored positions, and how many there are: tuning on texts."""
    logits = logits_of(model, batch).flatten(0, 1).float()
    wanted = batch.targets.flatten()
    total = functional.cross_entropy(logits, wanted, ignore_index=IGNORE, reduction="sum")
    return total, (wanted != IGNORE).sum()


@dataclass(frozen=True)
class DistillationLoss:
    """A loss for the training loop: a divergence from the teacher at the scored positions."""

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
        """Σ divergence, and the number of scored positions."""
        self.teacher.eval()  # dropout would make the teacher another one at every step
        scored = batch.targets != IGNORE
        with torch.no_grad():
            teacher = logits_of(self.teacher, batch)[scored]
        student = logits_of(model, batch)[scored]
        check_same_vocabulary(student.shape[-1], teacher.shape[-1])
        found = DIVERGENCES[self.divergence](student, teacher, self.temperature)
        return found.sum(), scored.sum()


def check_same_vocabulary(student: int, teacher: int) -> None:
    """Probabilities of different tokens cannot be compared."""
    if student != teacher:
        raise UsageError(
            f"the student has {student:,} tokens and the teacher {teacher:,}: their probabilities "
            "cannot be compared; distil on the teacher's texts instead"
        )
