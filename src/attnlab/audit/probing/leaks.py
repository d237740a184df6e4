"""The search for a leak: change later tokens, compare earlier logits.

`largest_leak` tries some positions and many replacements in one situation. `sweep` tries one
replacement after every position, in batches, over texts that hold the vocabulary, a text that
repeats itself, and longer ones. `truncation_leaks` truncates the text: a prediction must not depend
on how long the text will be either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnlab.audit.probing.noise import movement, noise_of
from attnlab.audit.probing.probe import PLAIN, Probe, Situation, situations
from attnlab.audit.probing.subject import Subject

BUDGET = 3e9  # parameters × tokens of one part of a sweep: a second or less
VOCABULARY = 1e10  # the same for trying the whole vocabulary
EDGES = (16, 32, 64, 128, 256, 512, 1024)  # usual sizes of chunks and tables


@dataclass(frozen=True)
class Leak:
    """The prediction at `position` moved by `size` when only tokens after `after` changed."""

    size: float
    row: int
    position: int
    after: int
    situation: Situation
    changed: Tensor  # the other ids; fewer where the text was truncated

    @property
    def by_truncation(self) -> bool:
        """Whether only the length of the text changed."""
        return self.changed.shape != self.situation.ids.shape


def no_leak(situation: Situation) -> Leak:
    """A search that moved nothing."""
    return Leak(0.0, 0, 0, 0, situation, situation.ids)


def largest_leak(subject: Subject, situation: Situation, probe: Probe, threshold: float) -> Leak:
    """The largest movement of an earlier logit, over positions and replacements.

    All rows change together; a movement that comes from another row is no leak of the future.
    """
    best = _largest(subject, situation, probe, None)
    if best.size <= threshold or situation.ids.shape[0] == 1:
        return best
    alone = _only_row(situation.ids, best.changed, best.row)
    gap = movement(situation.logits(subject), situation.logits(subject, alone))
    if float(gap[best.row, best.position]) > threshold:
        return best
    return _largest(subject, situation, probe, best.row)


def plain_leak(subject: Subject, probe: Probe) -> Leak:
    """The largest leak in the plain situation; searched once and remembered."""

    def search() -> Leak:
        plain, threshold = next(situations(subject, probe)), noise_of(subject, probe).threshold
        return largest_leak(subject, plain, probe, threshold)

    return subject.remember(f"plain leak {probe}", search)


def _only_row(ids: Tensor, changed: Tensor, row: int) -> Tensor:
    rows = torch.arange(ids.shape[0], device=ids.device)[:, None]
    return torch.where(rows == row, changed, ids)


def _largest(subject: Subject, situation: Situation, probe: Probe, row: int | None) -> Leak:
    """The largest movement when all rows change, or only the one given."""
    before = situation.logits(subject)
    best = no_leak(situation)
    for after in _cuts(situation, subject.large):
        for changed in _replacements(situation.ids, after, subject, probe):
            given = changed if row is None else _only_row(situation.ids, changed, row)
            gap = movement(before, situation.logits(subject, given))[:, : after + 1]
            if situation.attention_mask is not None:
                gap = torch.where(situation.attention_mask[:, : after + 1], gap, 0.0)
            if row is not None:
                gap = _only_row(torch.zeros_like(gap), gap, row)
            if (size := float(gap.max())) > best.size:
                at, position = divmod(int(gap.argmax()), gap.shape[1])
                best = Leak(size, at, position, after, situation, given)
    return best


def _cuts(situation: Situation, few: bool) -> list[int]:
    """Positions after which tokens are replaced; `sweep` tries the others."""
    n = situation.length
    wanted = {0, 1, 2, n // 3, n // 2, 2 * n // 3, n - 3, n - 2}
    if few:
        wanted = {1, n - 2}
    elif situation.description != PLAIN:
        wanted = {0, n // 2, n - 2}
    return sorted(cut for cut in wanted if 0 <= cut < n - 1)


def _replacements(ids: Tensor, after: int, subject: Subject, probe: Probe) -> Iterator[Tensor]:
    """Ids that agree with the given ones up to and including `after`."""
    later = torch.arange(ids.shape[1], device=ids.device)[None] > after
    at_next = torch.arange(ids.shape[1], device=ids.device)[None] == after + 1
    other = probe.different_ids(ids, subject, draw=after)
    yield torch.where(later, other, ids)
    if subject.large:
        return
    yield torch.where(at_next, other, ids)
    yield torch.where(later, probe.different_ids(ids, subject, draw=1000 + after), ids)
    yield torch.cat([ids[:, :-1], other[:, -1:]], dim=1)
    marker = subject.special[0] if subject.special else 0
    yield torch.where(later, torch.full_like(ids, marker), ids)


# ------------------------------------------------------------------------------- every position


def sweep(subject: Subject, probe: Probe, threshold: float) -> Iterator[Leak]:
    """Largest movements over texts of the vocabulary, a text that repeats itself, longer texts."""
    tokens = int(BUDGET / subject.work)
    n = probe.short_length(subject)
    texts = max(1, min(-(-subject.vocabulary // n), tokens // (4 * n * n)))
    for text in probe.rows(subject, n, rows=texts, draw=5).split(1):
        yield _sweep_text(subject, Situation(PLAIN, text), probe, range(n - 1), threshold)
    yield from _every_token(subject, probe, threshold)
    again = Situation("in a text that repeats itself", probe.repeating(subject, n))
    yield _sweep_text(subject, again, probe, range(n - 1), threshold)
    for length in probe.lengths(subject)[1:]:
        count = tokens // (length + length**3 // 7000)  # attention pays for pairs, and they add up
        where = _positions_to_try(length, max(2 if subject.large else 4, count), probe.seed)
        text = probe.rows(subject, length, rows=1)
        yield _sweep_text(subject, Situation(f"at length {length}", text), probe, where, threshold)


def _every_token(subject: Subject, probe: Probe, threshold: float) -> Iterator[Leak]:
    """As many ids as time allows, each once before and once after the change."""
    n = subject.fitting(3)
    tokens = int(VOCABULARY / subject.work)
    count = min(subject.vocabulary, max(64, tokens // (2 * n)))
    if subject.large or n < 3:
        return
    for rows in probe.pairs(subject, n, count).split(subject.rows_per_call(n)):
        later = torch.arange(n, device=rows.device)[None] > 1
        changed = torch.where(later, probe.different_ids(rows, subject, draw=9), rows)
        gap = movement(subject.logits(rows), subject.logits(changed))[:, :2]
        situation = Situation(PLAIN, rows)
        if float(gap.max()) <= threshold:
            yield replace(no_leak(situation), size=float(gap.max()))
            continue
        row, position = divmod(int(gap.argmax()), 2)
        one = Situation(PLAIN, rows[row : row + 1])
        yield _confirm(subject, Leak(0.0, row, position, 1, one, changed), threshold)


def _positions_to_try(length: int, count: int, seed: int) -> list[int]:
    """`count` positions: the ends, both sides of chunk edges, then evenly spaced ones."""
    ends = [1, length - 2, length // 2]
    blocks = [position for edge in EDGES[::-1] for position in (edge - 1, edge)]
    even = [(i * (length - 1)) // count + seed % 2 for i in range(count)]
    wanted = dict.fromkeys(p for p in (*ends, *blocks, *even) if 0 <= p < length - 1)
    return sorted(list(wanted)[:count])


def _sweep_text(
    subject: Subject, situation: Situation, probe: Probe, cuts: Sequence[int], threshold: float
) -> Leak:
    """The largest movement over a batch of copies, each changed after another position."""
    ids, n = situation.ids, situation.length
    at = torch.arange(n, device=ids.device)[None]
    best = no_leak(situation)
    before = dict[int, Tensor]()  # by the number of rows

    def replacement(cut: int) -> Tensor:
        if "repeats" in situation.description:
            return probe.repeating(subject, n, draw=cut + 1)
        return probe.different_ids(ids, subject, draw=cut)

    for some in torch.tensor(list(cuts), device=ids.device).split(subject.rows_per_call(n)):
        other = torch.cat([replacement(cut) for cut in some.tolist()])
        stacked = torch.where(at > some[:, None], other, ids)
        if (count := len(some)) not in before:
            before[count] = subject.logits(ids.expand(count, -1))
        gap = movement(before[count], subject.logits(stacked))
        gap = torch.where(at <= some[:, None], gap, 0.0)
        if (size := float(gap.max())) > best.size:
            row, position = divmod(int(gap.argmax()), n)
            best = Leak(size, row, position, int(some[row]), situation, stacked)
    return best if best.size <= threshold else _confirm(subject, best, threshold)


def _confirm(subject: Subject, leak: Leak, threshold: float) -> Leak:
    """Confirm a leak seen in a batch of copies: on its own, or with the other rows unchanged."""
    ids, row = leak.situation.ids, leak.row
    changed = leak.changed[row : row + 1]
    gap = movement(subject.logits(ids), subject.logits(changed))[0, : leak.after + 1]
    if (size := float(gap.max())) > threshold:
        return replace(leak, size=size, row=0, position=int(gap.argmax()), changed=changed)
    count = leak.changed.shape[0]
    batch = Situation(f"in a batch of {count}", ids.repeat(count, 1))
    alone = _only_row(batch.ids, leak.changed, row)
    gap = movement(subject.logits(batch.ids), subject.logits(alone))[row, : leak.after + 1]
    if (size := float(gap.max())) > threshold:
        return Leak(size, row, int(gap.argmax()), leak.after, batch, alone)
    return no_leak(leak.situation)  # it came from other rows: left to batch-independence


# -------------------------------------------------------------------------------------- length


def truncation_leaks(subject: Subject, probe: Probe) -> Iterator[Leak]:
    """The largest movement for every length when the text is truncated."""
    for length in probe.lengths(subject)[: 1 if subject.large else None]:
        situation = Situation(f"at length {length}", probe.rows(subject, length, rows=1))
        if length == probe.short_length(subject):
            situation = replace(situation, description=PLAIN)
        before, best = subject.logits(situation.ids), no_leak(situation)
        for kept in _truncated_lengths(subject, length):
            ids = situation.ids[:, :kept]
            try:
                gap = movement(before[:, :kept], subject.logits(ids))[0]
            except Exception:  # anyone's code: too short a text
                continue
            if (size := float(gap.max())) > best.size:
                best = Leak(size, 0, int(gap.argmax()), kept - 1, situation, ids)
        yield best


def _truncated_lengths(subject: Subject, length: int) -> list[int]:
    if subject.large:
        wanted = [length // 2]
    elif length < 32:
        wanted = [1, 2, 3, 8, 12, 16, length // 2, length - 1]
    else:
        wanted = [1, length // 2, *(edge for edge in EDGES if edge < length), length - 1]
    return sorted({kept for n in wanted if 0 < (kept := subject.fitting(n)) < length})
