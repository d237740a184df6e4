"""causality: does a prediction change when only later tokens change?

Runs: tokens after position t are replaced (all of them by random ones, by one id, only the next,
only the last) for several t and rows; the logits at positions up to t are compared, in float64
where the model allows. In evaluation mode, for one row and several, with masks and padding, with
labels, in training mode; then after every position, over texts that hold the vocabulary, that
repeat themselves, and longer ones; then the text is cut off; last, weights that are all zero are
given small values. Number: the largest movement. Fails above ten times the model's own noise; says
where it begins (module, position) and how far it looks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from attnlab.audit.finding import Finding
from attnlab.audit.probing.float64 import fill_zero_weights, float32_copy, zero_weights
from attnlab.audit.probing.leak_horizon import leak_horizon
from attnlab.audit.probing.leaks import Leak, largest_leak, sweep, truncation_leaks
from attnlab.audit.probing.localize import Location, localize_positions, localize_truncation
from attnlab.audit.probing.noise import Noise, movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import causal, repeatable, two_tokens
from attnlab.audit.probing.situations import PLAIN, Situation, situations
from attnlab.audit.probing.subject import Subject
from attnlab.audit.registry import audit

NAME = "causality"
TINY = 1e-6  # of the largest logit: a smaller movement may be the rounding of a Fourier transform
SHRINKS = 1e6  # … which is so many times larger in float32; a leak is not


@dataclass(frozen=True)
class _Search:
    """A model, the same one in finer numbers, and how far those move by themselves."""

    subject: Subject
    fine: Subject
    probe: Probe
    noise: Noise

    def limit(self, leak: Leak) -> float:
        """Texts of other lengths round otherwise; so do long ones where nothing is seen inside."""
        if leak.by_length:
            return max(self.noise.threshold, self.noise.rounding)
        hidden = self.fine is self.subject and self.subject.module is None
        longer = leak.situation.length / self.probe.short(self.fine) if hidden else 1.0
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
    for leak in _found(search, failed):
        if leak.size > search.limit(leak):
            leaks.append(leak)
        elif not leak.by_length:
            largest = max(largest, leak.size)
    leaks = _fewer(search, leaks)
    evidence: dict[str, Any] = {**search.noise.evidence(), "not_run": failed}
    if leaks:
        return _leaking(search, leaks, evidence, "")
    if finding := _asleep(search, evidence):
        return finding
    why = "changing later tokens changes no earlier prediction"
    return Finding(NAME, "pass", largest, search.noise.threshold, why, evidence)


def plain_leak(subject: Subject, probe: Probe) -> bool:
    """Whether anything leaks in the plainest situation, zero weights woken; kept."""
    if "leaks" not in subject.memo:
        fine = subject.finest()
        subject.memo["leaks"] = any(
            _leaks_plainly(s, probe) for s in (fine, fill_zero_weights(fine)) if s is not None
        )
    return subject.memo["leaks"]


def _leaks_plainly(subject: Subject, probe: Probe) -> bool:
    threshold = noise_of(subject, probe).threshold
    plain = Situation(PLAIN, probe.rows(subject, probe.short(subject)))
    return largest_leak(subject, plain, probe, threshold).size > threshold


def _found(search: _Search, failed: dict[str, str]) -> Iterator[Leak]:
    """What every way of looking finds; what cannot be run is said."""
    fine, probe, threshold = search.fine, search.probe, search.noise.threshold
    for situation in situations(fine, probe):
        try:
            yield largest_leak(fine, situation, probe, threshold)
        except Exception as error:  # anyone's code
            if situation.words == PLAIN:
                raise
            failed[situation.words] = f"{type(error).__name__}: {str(error)[:120]}"
    for words, way in (
        ("at every position", sweep(fine, probe, threshold)),
        ("when the text is cut off", truncation_leaks(fine, probe)),
    ):
        try:
            yield from way
        except Exception as error:  # anyone's code
            failed[words] = f"{type(error).__name__}: {str(error)[:120]}"


def _fewer(search: _Search, leaks: list[Leak]) -> list[Leak]:
    """Without rounding; the plainest first; a text whose length alone matters is said last."""
    kept = [leak for leak in leaks if not _rounding(search, leak)]
    found = [_in_short_text(search, leak) if leak.by_length else leak for leak in kept]
    if found and found[0].situation.words != PLAIN:
        found[0] = _plainly(search, found[0])
    return sorted(found, key=lambda leak: (leak.by_length, leak.situation.words != PLAIN))


def _plainly(search: _Search, leak: Leak) -> Leak:
    """The same row alone in evaluation mode, if it leaks there too: chance showed it elsewhere."""
    situation, n = leak.situation, search.probe.short(search.fine)
    if leak.by_length or situation.length != n or "repeats" in situation.words:
        return leak
    one = slice(leak.row, leak.row + 1)
    alone, changed = Situation(PLAIN, situation.ids[one]), leak.changed[one]
    gap = movement(alone.logits(search.fine), alone.logits(search.fine, changed))[0]
    if float(gap[leak.position]) <= search.noise.threshold:
        return leak
    return replace(leak, size=float(gap[leak.position]), row=0, situation=alone, changed=changed)


def _rounding(search: _Search, leak: Leak) -> bool:
    """A tiny movement that grows as numbers get coarser is rounding; a leak stays what it is."""
    if leak.size > TINY * search.noise.scale or search.fine is search.subject or leak.by_length:
        return False
    situation = leak.situation
    for coarse in (
        search.subject,
        float32_copy(search.subject),
    ):  # 16 bits may round a movement away
        gap = movement(situation.logits(coarse), situation.logits(coarse, leak.changed))
        if float(gap[leak.row, : leak.after + 1].max()) > SHRINKS * leak.size:
            return True
    return False


def _in_short_text(search: _Search, leak: Leak) -> Leak:
    """Cut off, the text is read otherwise: perhaps because a text of that length leaks."""
    ids = leak.changed
    if ids.shape[1] < 2:
        return leak
    there = Situation(f"at length {ids.shape[1]}", ids)
    found = largest_leak(search.fine, there, search.probe, search.noise.threshold)
    return found if found.size > search.noise.threshold else leak


def _asleep(search: _Search, evidence: dict[str, Any]) -> Finding | None:
    """The plain situation again, weights that are all zero given small values."""
    woken = fill_zero_weights(search.fine)
    if woken is None:
        return None
    noise = noise_of(woken, search.probe)
    plain = Situation(PLAIN, search.probe.rows(woken, search.probe.short(woken)))
    leak = largest_leak(woken, plain, search.probe, noise.threshold)
    if leak.size <= noise.threshold:
        return None
    zero = zero_weights(search.fine)
    only = f"once `{zero[0]}`, now all zero, has learned anything, "
    there = replace(search, fine=woken, noise=noise)
    return _leaking(there, [leak], {**evidence, "zero_weights": zero}, only)


def _leaking(search: _Search, leaks: list[Leak], evidence: dict[str, Any], only: str) -> Finding:
    """Say what was seen in the plainest situation that leaks, and whether others are clean."""
    leak, noise = leaks[0], search.noise
    ahead = leak_horizon(search.fine, leak, noise.threshold)
    place = _place(search, leak)
    if leak.situation.words != PLAIN:
        only = f"only {leak.situation.words}: "
    what = f"{only}the prediction at position {leak.position} moves by {leak.size:.2g} when "
    why = (
        f"the text is cut off after {leak.after}: it depends on how long the text is; "
        if leak.by_length
        else f"nothing but tokens after {leak.after} changes: it looks {ahead.words}; "
    )
    evidence |= {
        "position": leak.position,
        "row": leak.row,
        "changed_after": leak.after,
        "token": int(leak.situation.ids[leak.row, leak.position]),
        "looks_ahead": ahead.tokens,
        "module": place.module,
        "situations": {found.situation.words: found.size for found in reversed(leaks)},
    }
    number = max(found.size for found in leaks)
    return Finding(NAME, "fail", number, search.limit(leak), what + why + place.words, evidence)


def _place(search: _Search, leak: Leak) -> Location:
    if leak.by_length:
        return localize_truncation(search.fine, leak.situation.ids, leak.changed, search.noise)
    found = localize_positions(search.fine, leak.situation, leak.changed, leak.after, search.noise)
    return (
        Location("", "it reads its labels") if leak.situation.labels and not found.module else found
    )
