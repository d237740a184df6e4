"""mask-strength: can a score beat the mask?

Runs: one forward pass in which the scores of every attention are recorded; those of later positions
are the masked ones. Number: the smallest distance, over queries, from the largest visible score
down to the largest masked one. Fails below 30 (a weight of e⁻³⁰ is 1e-13): a mask of −10, or
of −10⁴ once training has driven scores there, is a number among numbers and can be outweighed.
Where the future would show in the logits and does not, it is masked after the softmax.
"""

import math

import torch
from torch import Tensor

from attnlab.audit.finding import Finding, audit
from attnlab.audit.probing.attention_scores import attention_scores, never
from attnlab.audit.probing.copies import fill_zero_weights
from attnlab.audit.probing.leaks import plain_leak
from attnlab.audit.probing.noise import noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import causal, not_repeatable
from attnlab.audit.probing.subject import Subject

NAME = "mask-strength"
MARGIN = 30.0
SHOWS = 10.0  # a weight of 5e-5 shows in any precision; in float64 all below MARGIN do


@audit(NAME, question="Can a large score outweigh the mask?", needs=(causal,), threshold=MARGIN)
def mask_strength(subject: Subject, probe: Probe) -> Finding:
    """Judge a causal model whose attention scores can be recorded."""
    margins = [_margin(scores) for scores in attention_scores(subject, probe, by_hand=True)]
    margin = min(margins)
    evidence = {"attentions": len(margins), "weakest": margins.index(margin)}
    number = None if margin == math.inf else margin
    if margin >= MARGIN:
        why = "masked scores lie so far below visible ones that none can be outweighed"
        return Finding(NAME, "pass", number, MARGIN, why, evidence)
    if _would_show(subject, probe, margin) and not _leaks(subject, probe):
        why = "scores of later positions enter the softmax and are masked after it"
        return Finding(NAME, "pass", number, MARGIN, why, evidence)
    where = f"in attention {margins.index(margin)} of {len(margins)} a score of a later position "
    why = where + (
        f"lies only {margin:.3g} below a visible one: its mask is a number that scores can outweigh"
        if margin > 0
        else f"is {-margin:.3g} larger than every visible one: its mask is outweighed, or missing"
    )
    return Finding(NAME, "fail", number, MARGIN, why, evidence)


def _would_show(subject: Subject, probe: Probe, margin: float) -> bool:
    """Whether so weak a mask must show in the logits unless something else hides the future."""
    if not_repeatable(subject, probe) is not None:
        return False
    noise = noise_of(subject.finest(), probe)
    return margin < (MARGIN if noise.dtype == torch.float64 else SHOWS)


def _leaks(subject: Subject, probe: Probe) -> bool:
    """Whether it leaks in the plain situation, or would with its zero weights filled."""
    fine = subject.finest()
    models = [model for model in (fine, fill_zero_weights(fine)) if model is not None]
    return any(plain_leak(m, probe).size > noise_of(m, probe).threshold for m in models)


def _margin(scores: Tensor) -> float:
    """Largest visible score − largest masked one, the least over rows."""
    n = scores.shape[-1]
    later = torch.ones(n, n, dtype=torch.bool, device=scores.device).triu(1)
    values = scores.double()
    values = torch.where(values <= never(scores), -torch.inf, values)
    masked = values.masked_fill(~later, -torch.inf).amax(dim=-1)[..., :-1]
    if bool((masked == -torch.inf).all()):
        return math.inf
    return float((values.masked_fill(later, -torch.inf).amax(dim=-1)[..., :-1] - masked).min())
