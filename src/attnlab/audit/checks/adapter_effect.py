"""adapter-effect: does what was trained and added do anything, and does it survive the disk?

Runs: the logits of one batch by the model as trained, with the added part at random, without it
(the base encoder under the same head), and saved and loaded. Number: smallest movement of a
logit where one must move, relative to the spread of the logits. Fails when the trained part answers
like a random one or none at all, or when the loaded model differs by a bit.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attnlab.audit.finding import Finding, NotApplicable, audit

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
        logits = trained().detach()
        movements = {name: _movement(logits, answer().detach()) for name, answer in others.items()}
        restored = None if again is None else again().detach()
    if not movements and restored is None:
        raise NotApplicable("no other model was given to compare with")
    if not torch.isfinite(logits).all():
        return Finding(NAME, "fail", None, LIMIT, "its logits are not finite")
    least = min(movements.values(), default=None)
    evidence: dict[str, Any] = {"moved": movements}
    problems = [
        f"with {name} in place of the trained part its logits are the same: it is not used"
        for name, size in movements.items()
        if not size > LIMIT
    ]
    if restored is not None:
        same = restored.shape == logits.shape and torch.equal(restored, logits)
        evidence["restored"] = same
        if not same:
            size = _movement(logits, restored)
            problems.insert(0, f"after loading its logits move by {size:.2g} of their spread")
    if problems:
        evidence["problems"] = problems
        return Finding(NAME, "fail", least, LIMIT, problems[0], evidence)
    words = " and ".join(f"{name} ({size:.2g})" for name, size in movements.items())
    why = f"its logits differ from those with {words}" if movements else "nothing was taken away"
    why += "; after loading they are the same" if restored is not None else ""
    return Finding(NAME, "pass", least, LIMIT, why, evidence)


def _movement(one: Tensor, other: Tensor) -> float:
    """max|Δ| / (max − min) of the first; infinite for another shape or what is no number."""
    if one.shape != other.shape:
        return float("inf")
    spread = float(one.max() - one.min()) or 1.0
    size = float((one - other).abs().max()) / spread
    return size if size == size else float("inf")
