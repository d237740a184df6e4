"""How far ahead a leak looks: one later token at a time is changed, and the prediction compared."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.audit.probing.leaks import Leak
from attnlab.audit.probing.noise import movement
from attnlab.audit.probing.subject import Subject

NEAR = 24  # later tokens that are tried one by one


@dataclass(frozen=True)
class Horizon:
    """Which later tokens, counted from the position that moved, matter to it."""

    tokens: list[int]
    words: str


def leak_horizon(subject: Subject, leak: Leak, threshold: float) -> Horizon:
    """Which later tokens move the prediction; from the middle of the text where it has no room."""
    if leak.by_length:
        return Horizon([], "no later token, only how many there are")
    n = leak.situation.length
    places = [leak.position] if leak.position < n - 2 or n > NEAR else [n // 3, leak.position]
    for at in places:
        found, last = _one_by_one(subject, leak, threshold, at)
        if found:
            return Horizon(found, _words(found, last))
    single = _farther(subject, leak, threshold)
    if single is not None:
        return Horizon([single], f"{single} tokens ahead")
    return Horizon([], "ahead only when many later tokens change together")


def _words(found: list[int], last: int) -> str:
    if found == [1]:
        return "one token ahead"
    if max(found) >= last:
        return "at the whole rest of the text"
    if len(found) == 1:
        return f"{found[0]} tokens ahead"
    return f"up to {max(found)} tokens ahead"


def _one_by_one(subject: Subject, leak: Leak, threshold: float, at: int) -> tuple[list[int], int]:
    """Distances of the tokens that matter, and the largest that was tried."""
    ids, changed = leak.situation.ids, leak.changed
    before = leak.situation.logits(subject)
    last = min(ids.shape[1], at + 1 + NEAR)
    found = []
    for j in range(at + 1, last):
        one = ids.clone()
        one[:, j] = (
            changed[:, j]
            if bool((changed[:, j] != ids[:, j]).all())
            else ((ids[:, j] + 1) % subject.vocabulary)
        )
        gap = movement(before, leak.situation.logits(subject, one))
        if float(gap[leak.row, at]) > threshold:
            found.append(j - at)
    return found, last - at - 1


def _farther(subject: Subject, leak: Leak, threshold: float) -> int | None:
    """By halving: the one later token that is enough, if one is."""
    ids, before = leak.situation.ids, leak.situation.logits(subject)
    places = (leak.changed != ids).any(dim=0).nonzero().flatten()

    def enough(some: Tensor) -> bool:
        chosen = torch.zeros(ids.shape[1], dtype=torch.bool, device=ids.device)
        chosen[some] = True
        other = torch.where(chosen[None], leak.changed, ids)
        gap = movement(before, leak.situation.logits(subject, other))
        return float(gap[leak.row, leak.position]) > threshold

    while len(places) > 1:
        half = len(places) // 2
        places = next((p for p in (places[:half], places[half:]) if enough(p)), places[:0])
    return int(places[0]) - leak.position if len(places) else None
