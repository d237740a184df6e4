"""padding: do pads change what is said about real tokens?

Runs: a text without pads, with pads on its right, on its left, with another id as the pad; masks
are given, and positions counted from the first real token where the model takes them. Number: the
largest movement of a real token's logits. Fails above ten times the model's own noise.
"""

import torch
from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.noise import moved, noise_of
from attnlab.audit.probe import Probe
from attnlab.audit.subject import Subject

NAME = "padding"
PADS = 5


def padding(subject: Subject, probe: Probe) -> Finding:
    """Judge any model that takes a mask."""
    if not subject.takes_mask:
        why = "it takes no mask, so it cannot be told what is padding"
        return Finding(NAME, "not-applicable", None, None, why)
    fine = subject.finest()
    noise = noise_of(fine, probe)
    threshold = max(noise.threshold, noise.rounding)  # other shapes round otherwise
    text = probe.rows(fine, probe.short(fine) - PADS, rows=2)
    text = text[:, : fine.context - PADS]
    found = {
        f"on the {'left' if left else 'right'}{words}": _movement(fine, text, left, pad)
        for left in (False, True)
        for words, pad in (("", 0), (" with another id", fine.vocabulary - 1))
    }
    worst = max(found, key=lambda name: found[name])
    evidence = {**noise.evidence(), "movements": found}
    if found[worst] <= threshold:
        why = "pads on the left or right leave the logits of real tokens as they are"
        return Finding(NAME, "pass", found[worst], threshold, why, evidence)
    bad = [name for name, size in found.items() if size > threshold]
    why = (
        f"{PADS} pads {bad[0]} move the logits of real tokens by {found[bad[0]]:.2g}: {_cause(bad)}"
    )
    return Finding(NAME, "fail", found[worst], threshold, why, evidence)


def _cause(bad: list[str]) -> str:
    if all(name.startswith("on the left") for name in bad):
        return "positions are counted from the first pad, or pads on the left are attended to"
    if all(name.startswith("on the right") for name in bad):
        return "pads after the text are read"
    return "pads are read as text"


def _movement(subject: Subject, text: Tensor, left: bool, pad: int) -> float:
    """Of real tokens, when PADS pads stand before or after them."""
    count, n = text.shape
    pads = torch.full((count, PADS), pad, dtype=text.dtype, device=text.device)
    real = torch.ones_like(text, dtype=torch.bool)
    none = torch.zeros_like(pads, dtype=torch.bool)
    ids = torch.cat([pads, text] if left else [text, pads], dim=1)
    visible = torch.cat([none, real] if left else [real, none], dim=1)
    whole, among = subject.logits(text, real), subject.logits(ids, visible)
    if not subject.per_position:
        return float(moved(whole, among).max())
    among = among[:, PADS:] if left else among[:, :n]
    return float(moved(whole, among).max())
