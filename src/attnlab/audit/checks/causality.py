"""causality: does a prediction change when only later tokens change?

Runs: tokens after position t are replaced (all of them by random ones, by one id, only the next,
only the last) for several t and rows; the logits at positions up to t are compared, in float64
where the model allows. In evaluation mode, for one row and several, with masks and padding, with
labels, in training mode; then after every position, over texts that hold the vocabulary, that
repeat themselves, and longer ones; then the text is truncated; last, weights that are all zero are
given small values. Number: the largest movement. Fails above ten times the model's own noise; says
where it begins (module, position) and how far ahead it looks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from attnlab.audit.finding import Finding, audit, describe_error
from attnlab.audit.probing.copies import fill_zero_weights, float32_copy, zero_weights
from attnlab.audit.probing.leaks import Leak, largest_leak, plain_leak, sweep, truncation_leaks
from attnlab.audit.probing.localize import (
    Location,
    leak_horizon,
    localize_positions,
    localize_truncation,
)
from attnlab.audit.probing.noise import Noise, movement, noise_of
from attnlab.audit.probing.probe import PLAIN, Probe, Situation, situations
from attnlab.audit.probing.requirements import causal, repeatable, two_tokens
from attnlab.audit.probing.subject import Subject

NAME = "causality"
TINY = 1e-6  # of the largest logit: a smaller movement may be rounding, of a Fourier transform say
SHRINKS = 1e6  # times: rounding is so much larger in float32; a leak is not


@dataclass(frozen=True)
class _Search:
    """The model, its finest copy, and the noise of that copy."""

    subject: Subject
    fine: Subject
    probe: Probe
    noise: Noise

    def limit(self, leak: Leak) -> float:
        """The threshold, higher where texts of other lengths, or long ones, round differently."""
        if leak.by_truncation:
            return max(self.noise.threshold, self.noise.rounding)
        hidden = self.fine is self.subject and self.subject.module is None
        longer = leak.situation.length / self.probe.short_length(self.fine) if hidden else 1.0
        return self.noise.threshold * max(1.0, longer)


@audit(
    NAME,
    question="Does it see the tokens it has to predict?",
    needs=(causal, two_tokens, repeatable),
)
def causality(subject: Subject, probe: Probe) -> Finding:
    """Judge a model that claims to predict the next token."""
    fine = subject.finest()
    search = _Search(subject, fine, probe, noise_of(fine, probe))
    failed: dict[str, str] = {}
    leaks, largest = list[Leak](), 0.0
    for leak in _search_leaks(search, failed):
        if leak.size > search.limit(leak):
            leaks.append(leak)
        elif not leak.by_truncation:
            largest = max(largest, leak.size)
    leaks = _select(search, leaks)
    evidence: dict[str, Any] = {**search.noise.evidence(), "not_run": failed}
    if leaks:
        return _failure(search, leaks, evidence, "")
    if finding := _leak_behind_zero_weights(search, evidence):
        return finding
    why = "changing later tokens changes no earlier prediction"
    return Finding(NAME, "pass", largest, search.noise.threshold, why, evidence)


def _search_leaks(search: _Search, failed: dict[str, str]) -> Iterator[Leak]:
    """The largest leak of every search; what raises an error is noted in `failed`."""
    fine, probe, threshold = search.fine, search.probe, search.noise.threshold
    yield plain_leak(fine, probe)
    for situation in islice(situations(fine, probe), 1, None):
        try:
            yield largest_leak(fine, situation, probe, threshold)
        except Exception as error:  # anyone's code
            failed[situation.description] = describe_error(error)
    for words, way in (
        ("at every position", sweep(fine, probe, threshold)),
        ("when the text is cut off", truncation_leaks(fine, probe)),
    ):
        try:
            yield from way
        except Exception as error:  # anyone's code
            failed[words] = describe_error(error)


def _select(search: _Search, leaks: list[Leak]) -> list[Leak]:
    """Without those that are rounding; the plain situation first, truncation last."""
    leaks = [leak for leak in leaks if not _is_rounding(search, leak)]
    leaks = [_in_truncated_text(search, leak) if leak.by_truncation else leak for leak in leaks]
    if leaks and leaks[0].situation.description != PLAIN:
        leaks[0] = _in_plain_situation(search, leaks[0])
    return sorted(leaks, key=lambda leak: (leak.by_truncation, leak.situation.description != PLAIN))


def _in_plain_situation(search: _Search, leak: Leak) -> Leak:
    """The same leak of the row alone in evaluation mode, if it shows there too."""
    situation, n = leak.situation, search.probe.short_length(search.fine)
    if leak.by_truncation or situation.length != n or "repeats" in situation.description:
        return leak
    one = slice(leak.row, leak.row + 1)
    alone, changed = Situation(PLAIN, situation.ids[one]), leak.changed[one]
    gap = movement(alone.logits(search.fine), alone.logits(search.fine, changed))[0]
    if float(gap[leak.position]) <= search.noise.threshold:
        return leak
    return replace(leak, size=float(gap[leak.position]), row=0, situation=alone, changed=changed)


def _is_rounding(search: _Search, leak: Leak) -> bool:
    """A tiny movement that grows in coarser types is rounding; a leak keeps its size."""
    if leak.size > TINY * search.noise.scale or search.fine is search.subject or leak.by_truncation:
        return False
    situation = leak.situation
    # a movement may vanish in 16 bits
    for coarse in (search.subject, float32_copy(search.subject)):
        gap = movement(situation.logits(coarse), situation.logits(coarse, leak.changed))
        if float(gap[leak.row, : leak.after + 1].max()) > SHRINKS * leak.size:
            return True
    return False


def _in_truncated_text(search: _Search, leak: Leak) -> Leak:
    """A leak in the truncated text itself, if that explains why truncation changes its logits."""
    ids = leak.changed
    if ids.shape[1] < 2:
        return leak
    there = Situation(f"at length {ids.shape[1]}", ids)
    found_there = largest_leak(search.fine, there, search.probe, search.noise.threshold)
    return found_there if found_there.size > search.noise.threshold else leak


def _leak_behind_zero_weights(search: _Search, evidence: dict[str, Any]) -> Finding | None:
    """The plain situation again with all-zero weights filled: training will change them."""
    filled = fill_zero_weights(search.fine)
    if filled is None:
        return None
    noise, leak = noise_of(filled, search.probe), plain_leak(filled, search.probe)
    if leak.size <= noise.threshold:
        return None
    zero = zero_weights(search.fine)
    only = f"once `{zero[0]}`, which is all zero, has learned anything, "
    there = replace(search, fine=filled, noise=noise)
    return _failure(there, [leak], {**evidence, "zero_weights": zero}, only)


def _failure(search: _Search, leaks: list[Leak], evidence: dict[str, Any], only: str) -> Finding:
    """The failure: what happens in the plainest situation that leaks, and where it begins."""
    leak, noise = leaks[0], search.noise
    distances, ahead = leak_horizon(search.fine, leak, noise.threshold)
    place = _place(search, leak)
    if leak.situation.description != PLAIN:
        only = f"only {leak.situation.description}: "
    why = f"{only}the prediction at position {leak.position} moves by {leak.size:.2g} when "
    if leak.by_truncation:
        why += f"the text is truncated after position {leak.after}: it depends on the length of "
        why += f"the text; {place.description}"
    else:
        why += f"only tokens after position {leak.after} change: it looks {ahead}; "
        why += place.description
    evidence |= {
        "position": leak.position,
        "row": leak.row,
        "changed_after": leak.after,
        "token": int(leak.situation.ids[leak.row, leak.position]),
        "looks_ahead": distances,
        "module": place.module,
        "situations": {other.situation.description: other.size for other in reversed(leaks)},
    }
    number = max(other.size for other in leaks)
    return Finding(NAME, "fail", number, search.limit(leak), why, evidence)


def _place(search: _Search, leak: Leak) -> Location:
    if leak.by_truncation:
        return localize_truncation(search.fine, leak.situation.ids, leak.changed, search.noise)
    situation = leak.situation
    place = localize_positions(search.fine, situation, leak.changed, leak.after, search.noise)
    reads_labels = situation.labels and not place.module
    return Location("", "it reads its labels") if reads_labels else place
