"""non-finite: does any number inside become NaN or infinite?

Runs: texts that hold the vocabulary, one token alone, a text that repeats itself, longer texts,
padding where the model takes a mask. Number: how many modules return a number that is not finite.
Fails when a prediction is NaN or +∞; names the first module. (Logits of −∞ ban tokens and pass.)
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from attnlab.audit.finding import Finding, audit
from attnlab.audit.probing.localize import record_calls
from attnlab.audit.probing.probe import Probe, Situation, ragged_mask
from attnlab.audit.probing.subject import Subject

NAME = "non-finite"
TOKENS = 3e9  # parameters × tokens for trying the vocabulary, or a part of it


@audit(NAME, question="Is every prediction a finite number?")
def non_finite(subject: Subject, probe: Probe) -> Finding:
    """Judge any model."""
    for situation in _texts(subject, probe):
        bad = _bad_logits(subject, situation)
        if not bool(bad.any()):
            continue
        row, position = (int(i) for i in bad.any(dim=-1).nonzero()[0])
        calls = record_calls(subject, partial(situation.logits, subject))
        bad_calls = (call for call in calls if any(_not_finite(t) for t in call.outputs))
        names = [call.name or "the model itself" for call in bad_calls]
        place = f", first in `{names[0]}`" if names else ""
        why = (
            f"the prediction at position {position} of row {row} is not finite "
            f"{situation.description}{place}"
        )
        evidence = {"modules": names[:5], "position": position, "row": row}
        if subject.per_position:
            evidence["token"] = int(situation.ids[row, position])
        return Finding(NAME, "fail", float(max(1, len(names))), 0.0, why, evidence)
    return Finding(NAME, "pass", 0.0, 0.0, "every prediction is a finite number")


def _bad_logits(subject: Subject, situation: Situation) -> Tensor:
    logits = situation.logits(subject)
    bad = _not_a_score(logits)
    if situation.attention_mask is not None:
        mask = situation.attention_mask
        real = mask if subject.per_position else mask.any(1, keepdim=True)
        bad = bad & real[..., None]
    return bad


def _texts(subject: Subject, probe: Probe) -> Iterator[Situation]:
    n = probe.short_length(subject)
    rows = probe.rows(subject, n)
    yield Situation("in a short text", rows)
    if subject.takes_mask:
        yield Situation("with padding on the left", rows, ragged_mask(rows, left=True))
        yield Situation("with padding on the right", rows, ragged_mask(rows, left=False))
        empty = torch.ones_like(rows, dtype=torch.bool)
        empty[-1] = False
        yield Situation("beside a row that is all padding", rows, empty)
    lengths = probe.lengths(subject)
    for length in lengths[1:] if not subject.large else lengths[-1:]:
        yield Situation(f"at length {length}", probe.rows(subject, length, rows=1))
    yield Situation("in a text that repeats itself", probe.repeating(subject, n))
    if subject.step == 1:
        yield Situation("for one token alone", rows[:, :1])
    tokens = min(subject.vocabulary, int(TOKENS / subject.work))
    every = probe.rows(subject, n, rows=-(-tokens // n), draw=5)
    for some in every.split(subject.rows_per_call(n)):
        yield Situation("for some token", some)


def _not_finite(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and bool(_not_a_score(tensor).any())


def _not_a_score(numbers: Tensor) -> Tensor:
    """True where a number is NaN or +∞."""
    return numbers.isnan() | (numbers == torch.inf)
