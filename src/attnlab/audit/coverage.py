"""coverage: does every token reach the predictions that may use it?

Runs: one token at a time is changed, and the logits after it are compared with what they were; at
the short length for every token, at a longer one for some. Number: the share of tokens that no
later prediction reads. Fails when there is one, or when no prediction reads an earlier token. How
far back the model looks is said: a window is no fault, but you should know of it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.audit.finding import Finding
from attnlab.audit.noise import moved
from attnlab.audit.probe import SHORT, Probe
from attnlab.audit.subject import Subject

NAME = "coverage"
SAMPLED = 16  # tokens tried at the longer length
LONGER = 131


def coverage(subject: Subject, probe: Probe) -> Finding:
    """Judge a causal model, or any that answers at every position."""
    if not subject.per_position:
        return _row_coverage(subject, probe)
    fine = subject.finest()
    maps = [_read(fine, probe, probe.short(fine), 8 if fine.large else SHORT)]
    longer = min(LONGER, fine.context, probe.length or LONGER)
    if longer > maps[0].length:
        maps.append(_read(fine, probe, longer, 6 if fine.large else SAMPLED))
    share = max(len(m.unread) / len(m.moves) for m in maps)
    evidence = {
        f"length {m.length}": {"unread": m.unread, "looks_back": m.looks_back} for m in maps
    }
    if all(len(m.unread) == len(m.moves) for m in maps):
        why = "no prediction reads an earlier token: the model sees one token at a time"
        return Finding(NAME, "fail", 1.0, 0.0, why, evidence)
    for m in maps:
        if m.unread:
            why = (
                f"no later prediction reads the token at position {_span(m.unread)} of {m.length}: "
                "the model is blind to it"
            )
            return Finding(NAME, "fail", share, 0.0, why, evidence)
    why = "every token is read by later predictions" + maps[-1].window
    return Finding(NAME, "pass", share, 0.0, why, evidence)


@dataclass(frozen=True)
class _Read:
    """How far the logits at every position move when the token at j changes: moves[j][t]."""

    length: int
    moves: dict[int, list[float]]

    @property
    def unread(self) -> list[int]:
        """Tokens that move no later prediction."""
        return [j for j, sizes in self.moves.items() if not any(sizes[j + 1 :])]

    @property
    def looks_back(self) -> int:
        """The largest distance from a token to a prediction that reads it."""
        return max((t - j for j, s in self.moves.items() for t in range(j, len(s)) if s[t]),
                   default=0)  # fmt: skip

    @property
    def window(self) -> str:
        """In words: how far back it looks, where that is not everything."""
        first = min(self.moves)
        if self.looks_back >= self.length - 1 - first:
            return ""
        return f", and none looks back further than about {self.looks_back} tokens"


def _read(subject: Subject, probe: Probe, length: int, count: int) -> _Read:
    ids = probe.rows(subject, length, rows=1)
    found = _Read(length, influence(subject, ids, _tried(length, count)))
    if found.unread:  # attention that picks a few tokens passes over some: ask in another text
        again = influence(subject, probe.rows(subject, length, rows=1, deal=2), found.unread)
        found.moves.update(again)
    return found


def _tried(length: int, count: int) -> list[int]:
    """So many positions, evenly spaced, the last one left out: nothing comes after it."""
    count = min(count, length - 1)
    return sorted({round(i * (length - 2) / max(1, count - 1)) for i in range(count)})


def influence(subject: Subject, ids: Tensor, places: list[int]) -> dict[int, list[float]]:
    """Position j -> how far the logits of each position move when the token at j changes."""
    before = subject.logits(ids)
    found: dict[int, list[float]] = {}
    for j in places:
        gap = torch.zeros(before.shape[1], dtype=torch.float64)
        for step in (1,) if subject.large else (1, subject.vocabulary // 2):
            other = ids.clone()
            other[:, j] = (other[:, j] + max(1, step)) % subject.vocabulary
            gap = torch.maximum(gap, moved(before, subject.logits(other))[0].cpu())
        found[j] = gap.tolist()
    return found


def _span(places: list[int]) -> str:
    if len(places) == 1:
        return str(places[0])
    return f"{places[0]} and {len(places) - 1} others up to {places[-1]}"


def _row_coverage(subject: Subject, probe: Probe) -> Finding:
    """One answer a row: every token must move it."""
    fine = subject.finest()
    n = probe.short(fine)
    found = influence(fine, probe.rows(fine, n, rows=1), list(range(n)))
    unread = [j for j, moves in found.items() if not any(moves)]
    evidence = {"length": n, "unread": unread}
    if unread:
        why = f"the answer does not read the token at position {_span(unread)} of {n}"
        return Finding(NAME, "fail", len(unread) / n, 0.0, why, evidence)
    return Finding(NAME, "pass", 0.0, 0.0, "the answer reads every token", evidence)
