"""loss-mask: are exactly the tokens scored that should be?

Runs: the gradient of the loss by the output of every position (not 0: scored); the loss again
after every unscored label is changed; the loss against Σ −log p over the scored labels, which
tells what it was divided by. Number: labels scored wrongly, or wrongly not scored. Fails when
there are any (an inverted or lost mask is named), when an unscored label moves the loss, when the
sum is divided by all positions though not all are scored, or when `end`, the end-of-text token, is
among no scored label: such a model never learns to stop.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnlab.audit.checks.label_shift import Given
from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE

NAME = "loss-mask"
Loss = Callable[[Tensor, Tensor], Tensor]
SAME = 1e-9  # relative: the very same numbers again
COUNT = 1e-5  # relative: a loss may compute in float32
SHOWN = 20


@audit(NAME, threshold=0)
def loss_mask(  # noqa: PLR0913  (what the labels are takes this many words)
    loss: Loss,
    labels: Tensor,
    vocabulary: int,
    *,
    scored: Tensor | None = None,
    end: int | None = None,
    given: Given = "ids",
    decode: Callable[[list[int]], str] | None = None,
) -> Finding:
    """Judge `loss(logits, labels)` on labels (batch, pos) as training gives them.

    scored: True where a label should be scored; by default every label that is not −100. A loss
    that takes its mask in another way closes over it. given: see label_shift.
    """
    wanted = labels != IGNORE if scored is None else scored.bool()
    if given == "ids":
        wanted = wanted & (torch.arange(labels.shape[1]) > 0)  # nothing comes before the first
    if not wanted.any():
        raise NotApplicable("no label should be scored")
    logits = torch.randn(
        (*labels.shape, vocabulary),
        generator=Seed(0).child(NAME).torch_generator(),
        dtype=torch.float64,
    )
    value, slope = loss_and_gradient(loss, logits, labels)
    is_scored = _is_scored(slope, given)
    wrong = (is_scored != wanted).nonzero().tolist()
    ends = int(((labels == end) & wanted & is_scored).sum()) if end is not None else None
    divided = _divided_by(value, logits, labels, is_scored & wanted, given)
    evidence: dict[str, Any] = {
        "ought": int(wanted.sum()),
        "scored": int(is_scored.sum()),
        "positions": labels.numel(),
        "divided_by": divided,
        "end_of_text_scored": ends,
        "wrong": wrong[:SHOWN],
        "scored_labels": labels[0][is_scored[0]].tolist()[:SHOWN],
    }
    if decode is not None:
        evidence["scored_text"] = decode(evidence["scored_labels"])
    problem = _mask_problem(is_scored, wanted, wrong)
    if not problem:  # every unscored label that is a token is changed; −100 may itself be the mask
        others = torch.where(wanted | (labels == IGNORE), labels, (labels + 1) % vocabulary)
        after = float(loss(logits.clone(), others))
        if not (torch.equal(others, labels) or abs(after - value) <= SAME * abs(value)):
            problem = f"changing unscored labels moves the loss from {value:.6g} to {after:.6g}"
    ought, positions = evidence["ought"], evidence["positions"]
    if not problem and abs(divided - positions) < COUNT * positions and ought < positions:
        problem = f"the sum over {ought} scored labels is divided by all {positions} positions"
    if not problem and ends == 0:
        problem = f"end-of-text ({end}) is not among the scored labels: it is never learned"
    why = f"exactly the {ought} labels are scored that should be"
    return Finding.judged(NAME, problem, why, len(wrong), 0, evidence)


def loss_and_gradient(loss: Loss, logits: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    """The loss and its gradient by the logits; zeros where it does not depend on them."""
    logits = logits.clone().requires_grad_()
    value, slope = loss(logits, labels.clone()), None
    if value.requires_grad:
        (slope,) = torch.autograd.grad(value, logits, allow_unused=True)
    return float(value.detach()), torch.zeros_like(logits) if slope is None else slope


def _is_scored(slope: Tensor, given: Given) -> Tensor:
    """For each label, whether an output is compared with it: the one at t with label t+1, or t."""
    scored = slope.abs().amax(-1) > 0
    return torch.nn.functional.pad(scored[:, :-1], (1, 0)) if given == "ids" else scored


def _mask_problem(is_scored: Tensor, wanted: Tensor, wrong: list[list[int]]) -> str:
    if not wrong:
        return ""
    row, position = wrong[0]
    kinds = f"the first is position {position} of row {row}"
    if not is_scored.any():
        return "no label is scored at all"
    if not (is_scored & wanted).any():
        return f"the mask is inverted: what should be scored is not, and the rest is ({kinds})"
    extra, missing = int((is_scored & ~wanted).sum()), int((wanted & ~is_scored).sum())
    parts = [f"{extra} labels are scored that should not be"] if extra else []
    parts += [f"{missing} labels are not scored that should be"] if missing else []
    return f"{' and '.join(parts)}; {kinds}"


def _divided_by(
    value: float, logits: Tensor, labels: Tensor, scored: Tensor, given: Given
) -> float:
    """Σ −log p over the scored labels, divided by the loss."""
    if given == "ids":
        logits, labels, scored = logits[:, :-1], labels[:, 1:], scored[:, 1:]
    log_p = torch.log_softmax(logits, -1)
    safe = labels.clamp(0, logits.shape[-1] - 1)
    each = -log_p.gather(-1, safe[..., None])[..., 0]
    return float(each[scored].sum()) / value if value else float("nan")
