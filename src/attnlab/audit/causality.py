"""causality: does a prediction change when only later tokens change?

Runs: tokens after position t are replaced (all of them by random ones, by one id, only the next,
only the last) for several t and rows; the logits at positions up to t are compared, in float64
where the model allows. In evaluation mode, for one row and several, with masks and padding, in
training mode, and at several lengths up to the longest. Number: the largest movement. Fails above
ten times the model's own noise; says where it begins (module, position) and how far it looks.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.noise import Noise, moved, noise_of
from attnlab.audit.probe import Probe
from attnlab.audit.situations import PLAIN, Situation, situations
from attnlab.audit.subject import Subject
from attnlab.audit.where import where

NAME = "causality"


@dataclass(frozen=True)
class Leak:
    """The prediction at `position` moved by `size` when only tokens after `after` changed."""

    size: float
    row: int
    position: int
    after: int
    situation: Situation
    changed: Tensor


def causality(subject: Subject, probe: Probe) -> Finding:
    """Judge a model that claims to predict the next token."""
    if not (subject.causal and subject.per_position):
        what = "is no causal language model" if subject.per_position else "answers once a row"
        return Finding(NAME, "not-applicable", None, None, f"{subject.name} {what}")
    fine = subject.finest()
    noise = noise_of(fine, probe)
    worst: dict[str, Leak] = {}
    largest, failed = 0.0, {}
    for situation in situations(fine, probe):
        try:
            found = leak_in(fine, situation, probe)
        except Exception as error:  # anyone's code: what cannot be run is said
            failed[situation.words] = f"{type(error).__name__}: {str(error)[:120]}"
            if situation.words == PLAIN:
                raise
            continue
        largest = max(largest, found.size)
        if found.size > noise.threshold:
            worst[situation.words] = found
    evidence = {**noise.evidence(), "not_run": failed}
    if not worst:
        why = "changing later tokens changes no earlier prediction"
        return Finding(NAME, "pass", largest, noise.threshold, why, evidence)
    return _leaking(fine, probe, noise, worst, evidence)


def leak_in(subject: Subject, situation: Situation, probe: Probe) -> Leak:
    """The largest movement of an earlier logit, over positions and replacements."""
    before = situation.logits(subject)
    best = Leak(0.0, 0, 0, 0, situation, situation.ids)
    few = subject.large or situation.length > probe.short(subject)
    for after in _cuts(situation.length, few):
        for changed in replacements(situation.ids, after, subject, probe, few):
            gap = moved(before, situation.logits(subject, changed))[:, : after + 1]
            if situation.visible is not None:
                gap = torch.where(situation.visible[:, : after + 1], gap, 0.0)
            size = float(gap.max())
            if size > best.size:
                row, position = divmod(int(gap.argmax()), gap.shape[1])
                best = Leak(size, row, position, after, situation, changed)
    return best


def _cuts(length: int, few: bool) -> list[int]:
    """Positions after which everything may change."""
    if few:
        return sorted({1, length - 2})
    return sorted({0, 1, 2, length // 3, length // 2, 2 * length // 3, length - 3, length - 2})


def replacements(
    ids: Tensor, after: int, subject: Subject, probe: Probe, few: bool
) -> Iterator[Tensor]:
    """Ids that agree with the given ones up to and including `after`."""
    later = torch.arange(ids.shape[1], device=ids.device)[None] > after
    at_next = torch.arange(ids.shape[1], device=ids.device)[None] == after + 1
    other = probe.others(ids, subject, deal=after)
    yield torch.where(later, other, ids)
    if few and subject.large:
        return
    yield torch.where(at_next, other, ids)
    if few:
        return
    yield torch.where(later, probe.others(ids, subject, deal=1000 + after), ids)
    yield torch.cat([ids[:, :-1], other[:, -1:]], dim=1)
    marker = subject.special[0] if subject.special else 0
    yield torch.where(later, torch.full_like(ids, marker), ids)


def _leaking(
    subject: Subject,
    probe: Probe,
    noise: Noise,
    worst: dict[str, Leak],
    evidence: dict[str, object],
) -> Finding:
    """Say what was seen in the plainest situation that leaks, and whether others are clean."""
    words, leak = next(iter(worst.items()))
    number = max(found.size for found in worst.values())
    ahead = reach(subject, leak, noise.threshold)
    place = where(subject, leak.situation, leak.changed, leak.after, noise)
    only = "" if words == PLAIN else f"only {words}: "
    why = (
        f"{only}the prediction at position {leak.position} moves by {leak.size:.2g} when nothing "
        f"but tokens after {leak.after} changes: it looks {ahead.words}; {place.words}"
    )
    evidence |= {
        "position": leak.position, "row": leak.row, "changed_after": leak.after,
        "looks_ahead": ahead.tokens, "module": place.module, "situations": {
            name: found.size for name, found in worst.items()
        },
    }  # fmt: skip
    return Finding(NAME, "fail", number, noise.threshold, why, evidence)


@dataclass(frozen=True)
class Reach:
    """Which later tokens, counted from the position that moved, matter to it."""

    tokens: list[int]
    words: str


def reach(subject: Subject, leak: Leak, threshold: float, most: int = 24) -> Reach:
    """Change one later token at a time and see whether the position that moved moves."""
    ids, changed, at = leak.situation.ids, leak.changed, leak.position
    before = leak.situation.logits(subject)
    found = []
    last = min(ids.shape[1], at + 1 + most)
    for j in range(at + 1, last):
        one = ids.clone()
        one[:, j] = changed[:, j] if bool((changed[:, j] != ids[:, j]).all()) else (
            (ids[:, j] + 1) % subject.vocabulary
        )  # fmt: skip
        gap = moved(before, leak.situation.logits(subject, one))
        if float(gap[leak.row, at]) > threshold:
            found.append(j - at)
    if not found:
        return Reach([], "ahead only when many later tokens change together")
    if found == [1]:
        return Reach(found, "one token ahead")
    if max(found) >= last - at - 1:
        return Reach(found, "at the whole rest of the text")
    return Reach(found, f"up to {max(found)} tokens ahead")
