"""padding: does padding change the logits of real tokens?

Runs: a text without padding, with padding on its right, on its left, with another padding id; a
mask is given, and positions count from the first real token where the model takes them. Number: the
largest movement of a real token's logits. Fails above ten times the model's own noise. The cause
follows from what moves them: other ids under the same mask (padding is read), or padding of any id.
A model with one answer per row, from its first token as BERT, need not accept padding on the left.
"""

import torch
from torch import Tensor

from attnlab.audit.finding import Finding, audit
from attnlab.audit.probing.noise import largest_movement, movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import padding_mask, repeatable
from attnlab.audit.probing.subject import Subject

NAME = "padding"
PADS = 5


@audit(
    NAME,
    question="Does padding change the logits of real tokens?",
    needs=(padding_mask, repeatable),
)
def padding(subject: Subject, probe: Probe) -> Finding:
    """Judge any model that takes a padding mask."""
    fine = subject.finest()
    noise = noise_of(fine, probe)
    threshold = noise.position_threshold
    pads = _padding_length(fine)
    text = probe.rows(fine, rows=2)
    text = text[:, : max(fine.step, min(text.shape[1], fine.context) - pads)]
    alone = fine.logits(text, torch.ones_like(text, dtype=torch.bool))
    movements = {
        f"on the {side}{words}": largest_movement(
            alone, _padded_logits(fine, text, side == "left", pad)
        )
        for side in ("right", "left")
        for words, pad in (("", 0), (" with another id", fine.vocabulary - 1))
    }
    worst = max(movements, key=lambda name: movements[name])
    evidence = {**noise.evidence(), "movements": movements}
    if movements[worst] <= threshold:
        why = "padding on the left or right does not change the logits of real tokens"
        return Finding(NAME, "pass", movements[worst], threshold, why, evidence)
    bad = [name for name, size in movements.items() if size > threshold]
    if not fine.per_position and all(name.startswith("on the left") for name in bad):
        why = "padding on the right changes no answer; on the left it shifts what it answers from"
        right = max(size for name, size in movements.items() if name not in bad)
        return Finding(NAME, "pass", right, threshold, why, evidence)
    cause = _cause(fine, text, bad, noise.threshold)
    size = movements[bad[0]]
    why = f"{pads} padding tokens {bad[0]} move logits of real tokens by {size:.2g}: {cause}"
    return Finding(NAME, "fail", movements[worst], threshold, why, evidence)


def _padding_length(subject: Subject) -> int:
    return PADS if subject.step == 1 else subject.step


def _cause(subject: Subject, text: Tensor, bad: list[str], threshold: float) -> str:
    """Whether the mask is inverted, padding is read, or only counted."""
    left, last = bad[0].startswith("on the left"), subject.vocabulary - 1
    other = text.clone()
    other[:, :-1] = (other[:, :-1] + 1) % subject.vocabulary
    gap = movement(_padded_logits(subject, text, left, 0), _padded_logits(subject, other, left, 0))
    if not float(gap[:, -1].max()) > threshold:  # the last real token reads no other real token
        return "the mask is inverted: real tokens are hidden and padding is read"
    kinds = sorted({0, min(1, last), subject.vocabulary // 2, last})  # under the same mask
    logits = [_padded_logits(subject, text, left, pad) for pad in kinds]
    if any(largest_movement(logits[0], other) > threshold for other in logits[1:]):
        return "padding is read as text" + ("" if left else ", though it comes after the text")
    if all(name.startswith("on the left") for name in bad):
        return "positions are counted from the first padding token"
    return "the ids of padding do not matter, but their number does"


def _padded_logits(subject: Subject, text: Tensor, left: bool, pad: int) -> Tensor:
    """The logits of a text with padding, at the positions of the text."""
    count, n = text.shape
    size = _padding_length(subject)
    pads = torch.full((count, size), pad, dtype=text.dtype, device=text.device)
    real, hidden = torch.ones_like(text, dtype=torch.bool), torch.zeros_like(pads, dtype=torch.bool)
    ids = torch.cat([pads, text] if left else [text, pads], dim=1)
    mask = torch.cat([hidden, real] if left else [real, hidden], dim=1)
    logits = subject.logits(ids, mask)
    if not subject.per_position:
        return logits
    return logits[:, size:] if left else logits[:, :n]
