"""distillation-identity: fires on a hidden term, a wrong mixture, a sign, a dead loss."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, mse_loss, softmax

from attnlab.audit.checks.distillation_identity import LIMIT, NAME, distillation_identity

Loss = Callable[[Tensor, Tensor], Tensor]


def forward_kl(student: Tensor, teacher: Tensor, t: float = 1.0) -> Tensor:
    s, q = (log_softmax(x / t, -1).flatten(0, 1) for x in (student, teacher))
    return kl_div(s, q, reduction="batchmean", log_target=True) * t * t


def jsd(student: Tensor, teacher: Tensor, beta: float = 0.5) -> Tensor:
    s, q = (log_softmax(x, -1) for x in (student, teacher))
    weights = torch.tensor([1 - beta, beta]).log()
    mixture = torch.logsumexp(torch.stack([s + weights[0], q + weights[1]]), 0)
    parts = [(x.exp() * (x - mixture)).sum(-1).mean() for x in (q, s)]
    return beta * parts[0] + (1 - beta) * parts[1]


CLEAN: dict[str, Loss] = {
    "forward kl": forward_kl,
    "forward kl at 4": lambda s, q: forward_kl(s, q, 4.0),
    "reverse kl": lambda s, q: forward_kl(q, s),
    "jsd": jsd,
    "jsd 0.1": lambda s, q: jsd(s, q, 0.1),
    "squared": mse_loss,
}


def soft_cross_entropy(student: Tensor, teacher: Tensor) -> Tensor:
    return -(softmax(teacher, -1) * log_softmax(student, -1)).sum(-1).mean()


def half_hard(student: Tensor, teacher: Tensor) -> Tensor:
    hard = cross_entropy(student.flatten(0, 1), teacher.argmax(-1).flatten())
    return 0.5 * forward_kl(student, teacher) + 0.5 * hard


def swapped(student: Tensor, teacher: Tensor) -> Tensor:
    """A skewed mixture with its two shares exchanged in one term: negative for some students."""
    s, q = (softmax(x, -1) for x in (student, teacher))
    m = 0.9 * s + 0.1 * q
    return (q * (m.log() - q.log())).sum(-1).mean()


def one_side_cooled(student: Tensor, teacher: Tensor) -> Tensor:
    return forward_kl(student, teacher / 2)


FAULTS: dict[str, tuple[Loss, str]] = {
    "cross-entropy to soft labels": (soft_cross_entropy, "equal to its teacher has"),
    "a hidden half of cross-entropy": (half_hard, "equal to its teacher has"),
    "temperature on one side": (one_side_cooled, "equal to its teacher has"),
    "negative divergence": (swapped, "the loss is negative"),
    "always zero": (lambda s, q: (s * 0).sum(), "0 for every student"),
    "detached": (lambda s, q: forward_kl(q, q), "0 for every student"),
    "log of nothing": (
        lambda s, q: (softmax(30 * s, -1) * softmax(30 * s, -1).log()).sum(),
        "the loss is nan",
    ),
}


@pytest.mark.parametrize("name", CLEAN)
def test_the_clean_twins_pass(name: str) -> None:
    found = distillation_identity(CLEAN[name])
    assert (found.name, found.verdict, found.threshold) == (NAME, "pass", LIMIT), found.why
    assert found.number is not None and found.number <= LIMIT
    assert min(found.evidence["other_students"]) > 0


@pytest.mark.parametrize("name", FAULTS)
def test_the_faults_are_caught(name: str) -> None:
    loss, said = FAULTS[name]
    found = distillation_identity(loss)
    assert found.verdict == "fail" and said in found.why


def test_a_mean_and_a_sum_are_told_apart() -> None:
    assert distillation_identity(forward_kl).evidence["doubled_batch"] == pytest.approx(1)
    total = distillation_identity(lambda s, q: forward_kl(s, q) * len(s))
    assert total.evidence["doubled_batch"] == pytest.approx(2)


def test_the_sequence_level_is_exempt() -> None:
    found = distillation_identity(soft_cross_entropy, level="sequence")
    assert found.verdict == "not-applicable" and "teacher's NLL" in found.why
