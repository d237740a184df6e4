"""adapter-effect: does what was trained and added do anything, and does it survive the disk?

Runs: the logits of one batch by the model as trained, with the added part drawn anew, without it
(the base encoder under the same head), and written and read again. Number: smallest movement of a
logit where one must move, relative to the spread of the logits. Fails when the trained part answers
as a random one or as none at all, or when the model that was read again answers otherwise by a bit.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.registry import NotApplicable, audit

NAME = "adapter-effect"
LIMIT = 1e-5  # of the spread: float32 sums in another order move 1e-7 to 1e-6 of it
Answer = Callable[[], Tensor]


@audit(NAME, threshold=LIMIT)
def adapter_effect(
    trained: Answer, others: Mapping[str, Answer], again: Answer | None = None
) -> Finding:
    """Judge answers on one batch: `others` must differ from the trained ("random", "none"),
    `again` (saved, and loaded in a fresh process if it can be) must be equal bit for bit.
    """
    with torch.no_grad():
        own = trained().detach()
        moved = {name: _movement(own, answer().detach()) for name, answer in others.items()}
        back = None if again is None else again().detach()
    if not moved and back is None:
        raise NotApplicable("no other model was given to compare with")
    if not torch.isfinite(own).all():
        return Finding(NAME, "fail", None, LIMIT, "its logits are no finite numbers")
    least = min(moved.values(), default=None)
    evidence: dict[str, Any] = {"moved": moved}
    problems = [
        f"with {name} in place of the trained part it answers the same: it is not used"
        for name, size in moved.items()
        if not size > LIMIT
    ]
    if back is not None:
        same = back.shape == own.shape and torch.equal(back, own)
        evidence["restored"] = same
        if not same:
            size = _movement(own, back)
            problems.insert(0, f"read from disk its logits move by {size:.2g} of their spread")
    if problems:
        return Finding(NAME, "fail", least, LIMIT, problems[0], {**evidence, "problems": problems})
    words = " and ".join(f"{name} ({size:.2g})" for name, size in moved.items())
    why = f"its logits differ from those with {words}" if moved else "nothing was taken away"
    why += "; read from disk they are the same" if back is not None else ""
    return Finding(NAME, "pass", least, LIMIT, why, evidence)


def _movement(one: Tensor, other: Tensor) -> float:
    """max|Δ| / (max − min) of the first; infinite for another shape or what is no number."""
    if one.shape != other.shape:
        return float("inf")
    spread = float(one.max() - one.min()) or 1.0
    size = float((one - other).abs().max()) / spread
    return size if size == size else float("inf")
