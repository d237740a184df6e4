"""label-shift: does the loss compare the output at t with token t+1, and with no other?

Runs: the loss on outputs that are certain of the token s positions ahead, for s = −1 … 3, over
random tokens. Number: the loss where s = 1, the true next token. Fails when that is not 0 (to 1e-4
of the loss of a wrong token), or when another s has a smaller loss: 0 shifts teach the model to
copy its input, 2 shifts to skip a token.
Where s = 1 is best but not 0, the positions that are compared with something else are named.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.core.seeds import Seed

NAME = "label-shift"
CERTAIN = 50.0  # right token 0, all others −50: a loss of V·e⁻⁵⁰, 50 where wrong, log Z of 0
LIMIT = 1e-4  # of the loss of a wrong token; one wrong position of all would be 1/97
BATCH, LENGTH = 2, 97
SHIFTS = (-1, 0, 1, 2, 3)
MEANING = {
    -1: "−1 shifts: it learns the token before",
    0: "0 shifts: it learns to copy its input",
    2: "2 shifts: labels that were shifted already are shifted again",
    3: "3 shifts: labels are shifted three times",
}
Given = Literal["ids", "next"]
Loss = Callable[[Tensor, Tensor], Tensor | float]  # of logits and labels


@audit(NAME)
def label_shift(
    loss: Loss, vocabulary: int, *, given: Given = "ids", smoothing: float = 0.0, seed: int = 0
) -> Finding:
    """Judge `loss(logits, labels)`, a mean or a sum.

    given: what a caller passes as labels. "ids": the input itself, the loss shifts (Hugging Face);
    "next": the following ids, the loss does not. smoothing: label smoothing of a mean loss, whose
    best value is ε · 50 · (1 − 1/V) and not 0.
    """
    if vocabulary < 2:
        raise NotApplicable("with one token every shift is right")
    margin = max(abs(s) for s in SHIFTS)
    generator = Seed(seed).child(NAME).torch_generator()
    line = torch.randint(vocabulary, (BATCH, LENGTH + 2 * margin), generator=generator)
    labels = _window(line, margin + (given == "next"))
    losses = {
        s: float(loss(_certain(_window(line, margin + s), vocabulary), labels.clone()))
        for s in SHIFTS
    }
    floor = smoothing * CERTAIN * (1 - 1 / vocabulary)
    best = min(losses, key=lambda s: losses[s] if math.isfinite(losses[s]) else math.inf)
    number = losses[1]
    limit = LIMIT * max((abs(v) for v in losses.values() if math.isfinite(v)), default=0.0)
    evidence: dict[str, Any] = {"loss_by_shift": {str(s): v for s, v in losses.items()}}
    if not math.isfinite(number):
        why = f"the loss of a perfect prediction is {number}"
    elif best != 1 and losses[best] < number - limit:
        why = f"{MEANING[best]} (loss {losses[best]:.3g} there, {number:.3g} for the next token)"
    elif limit == 0:
        why = "the loss is 0 for every input"
    elif abs(number - floor) > limit:
        logits = _certain(_window(line, margin + 1), vocabulary)
        evidence["misaligned"] = wrong = _misaligned_positions(loss, logits, labels, limit)
        shown = ", ".join([*map(str, wrong[:5]), *(["…"] if len(wrong) > 5 else [])])
        where = f"; positions {shown} are compared with another token" if wrong else ""
        why = f"the loss of a perfect prediction is {number:.3g}, not {floor:.3g}{where}"
    else:
        why = "an output that is certain of the next token has the smallest loss, as it should"
        return Finding(NAME, "pass", number - floor, limit, why, evidence)
    return Finding(NAME, "fail", number, limit, why, evidence)


def _window(line: Tensor, start: int) -> Tensor:
    return line[:, start : start + LENGTH]


def _certain(ids: Tensor, vocabulary: int) -> Tensor:
    return (torch.nn.functional.one_hot(ids, vocabulary).float() - 1) * CERTAIN


def _misaligned_positions(loss: Loss, logits: Tensor, labels: Tensor, limit: float) -> list[int]:
    """Positions where knowing nothing is better than knowing the next token."""
    base = float(loss(logits.clone(), labels.clone()))
    misaligned = []
    for position in range(logits.shape[1]):
        flat = logits.clone()
        flat[:, position] = 0
        if float(loss(flat, labels.clone())) < base - limit / LENGTH:
            misaligned.append(position)
    return misaligned
