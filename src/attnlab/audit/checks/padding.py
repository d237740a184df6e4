"""padding: do pads change what is said about real tokens?

Runs: a text without pads, with pads on its right, on its left, with another id as the pad; masks
are given, and positions counted from the first real token where the model takes them. Number: the
largest movement of a real token's logits. Fails above ten times the model's own noise. The cause is
told by what moves them: other ids under the same mask (pads are read), or pads of any id. A model
that answers once a row, from its first token as BERT does, need not bear pads before it.
"""

import torch
from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.probing.noise import movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import padding_mask, repeatable
from attnlab.audit.probing.subject import Subject
from attnlab.audit.registry import audit

NAME = "padding"
PADS = 5


@audit(NAME, question="Do pads change what is said about text?", needs=(padding_mask, repeatable))
def padding(subject: Subject, probe: Probe) -> Finding:
    """Judge any model that takes a mask."""
    fine = subject.finest()
    noise = noise_of(fine, probe)
    threshold = noise.elsewhere
    pads = _pads(fine)
    text = probe.rows(fine, probe.short(fine), rows=2)
    text = text[:, : max(fine.step, min(probe.short(fine), fine.context) - pads)]
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
    if not fine.per_position and all(name.startswith("on the left") for name in bad):
        why = "pads on the right change no answer; on the left they take the place it answers from"
        right = max(size for name, size in found.items() if name not in bad)
        return Finding(NAME, "pass", right, threshold, why, evidence)
    cause = _cause(fine, text, bad, noise.threshold)
    why = f"{pads} pads {bad[0]} move the logits of real tokens by {found[bad[0]]:.2g}: {cause}"
    return Finding(NAME, "fail", found[worst], threshold, why, evidence)


def _pads(subject: Subject) -> int:
    return PADS if subject.step == 1 else subject.step


def _cause(subject: Subject, text: Tensor, bad: list[str], threshold: float) -> str:
    """What under the mask matters that must not, and whether what must matter does."""
    left = bad[0].startswith("on the left")
    if not _reads_real_tokens(subject, text, left, threshold):
        return "the mask is read upside down: real tokens are hidden, pads are seen"
    if _reads_pads(subject, text, left, threshold):
        return "pads are read as text" + ("" if left else ", though they come after it")
    if all(name.startswith("on the left") for name in bad):
        return "positions are counted from the first pad"
    return "what the pads hold does not matter, but how many there are does"


def _reads_pads(subject: Subject, text: Tensor, left: bool, threshold: float) -> bool:
    """Whether real tokens move when pads become other ids under the same mask."""
    kinds = sorted({0, 1 % subject.vocabulary, subject.vocabulary // 2, subject.vocabulary - 1})
    said = [_among(subject, text, left, pad) for pad in kinds]
    return any(float(movement(said[0], other).max()) > threshold for other in said[1:])


def _reads_real_tokens(subject: Subject, text: Tensor, left: bool, threshold: float) -> bool:
    """Whether the last real token moves when another real one changes."""
    other = text.clone()
    other[:, :-1] = (other[:, :-1] + 1) % subject.vocabulary
    gap = movement(_among(subject, text, left, 0), _among(subject, other, left, 0))
    return float(gap[:, -1].max()) > threshold


def _movement(subject: Subject, text: Tensor, left: bool, pad: int) -> float:
    """Of real tokens, when pads stand before or after them."""
    real = torch.ones_like(text, dtype=torch.bool)
    return float(movement(subject.logits(text, real), _among(subject, text, left, pad)).max())


def _among(subject: Subject, text: Tensor, left: bool, pad: int) -> Tensor:
    """The answers to a text among pads: those of its own positions."""
    count, n = text.shape
    size = _pads(subject)
    pads = torch.full((count, size), pad, dtype=text.dtype, device=text.device)
    real, none = torch.ones_like(text, dtype=torch.bool), torch.zeros_like(pads, dtype=torch.bool)
    ids = torch.cat([pads, text] if left else [text, pads], dim=1)
    visible = torch.cat([none, real] if left else [real, none], dim=1)
    said = subject.logits(ids, visible)
    if not subject.per_position:
        return said
    return said[:, size:] if left else said[:, :n]
