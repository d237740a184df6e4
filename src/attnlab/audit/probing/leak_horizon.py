"""How far ahead a leak looks: later tokens are changed one at a time and the logits compared."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.audit.probing.leaks import Leak
from attnlab.audit.probing.noise import movement
from attnlab.audit.probing.subject import Subject

NEAR = 24  # later tokens that are tried one at a time


@dataclass(frozen=True)
class Horizon:
    """Distances of the later tokens that change the prediction, and a phrase for people."""

    tokens: list[int]
    description: str


def leak_horizon(subject: Subject, leak: Leak, threshold: float) -> Horizon:
    """Which later tokens change the prediction; tried in the middle too, if it is near the end."""
    if leak.by_truncation:
        return Horizon([], "at no later token, only at how many there are")
    n = leak.situation.length
    positions = [leak.position] if leak.position < n - 2 or n > NEAR else [n // 3, leak.position]
    for at in positions:
        distances, last = _near_distances(subject, leak, threshold, at)
        if distances:
            return Horizon(distances, _phrase(distances, last))
    distance = _bisect(subject, leak, threshold)
    if distance is not None:
        return Horizon([distance], f"{distance} tokens ahead")
    return Horizon([], "ahead only when many later tokens change together")


def _phrase(distances: list[int], last: int) -> str:
    if distances == [1]:
        return "one token ahead"
    if max(distances) >= last:
        return "at the whole rest of the text"
    if len(distances) == 1:
        return f"{distances[0]} tokens ahead"
    return f"up to {max(distances)} tokens ahead"


def _near_distances(
    subject: Subject, leak: Leak, threshold: float, at: int
) -> tuple[list[int], int]:
    """Distances of the tokens that change the prediction, and the largest distance tried."""
    ids, changed = leak.situation.ids, leak.changed
    before = leak.situation.logits(subject)
    last = min(ids.shape[1], at + 1 + NEAR)
    distances = []
    for j in range(at + 1, last):
        one, differs = ids.clone(), bool((changed[:, j] != ids[:, j]).all())
        one[:, j] = changed[:, j] if differs else (ids[:, j] + 1) % subject.vocabulary
        gap = movement(before, leak.situation.logits(subject, one))
        if float(gap[leak.row, at]) > threshold:
            distances.append(j - at)
    return distances, last - at - 1


def _bisect(subject: Subject, leak: Leak, threshold: float) -> int | None:
    """Distance of one later token that alone changes the prediction, found by bisection."""
    ids, before = leak.situation.ids, leak.situation.logits(subject)
    positions = (leak.changed != ids).any(dim=0).nonzero().flatten()

    def changes_prediction(some: Tensor) -> bool:
        chosen = torch.zeros(ids.shape[1], dtype=torch.bool, device=ids.device)
        chosen[some] = True
        other = torch.where(chosen[None], leak.changed, ids)
        gap = movement(before, leak.situation.logits(subject, other))
        return float(gap[leak.row, leak.position]) > threshold

    while len(positions) > 1:
        half = len(positions) // 2
        positions = next(
            (p for p in (positions[:half], positions[half:]) if changes_prediction(p)),
            positions[:0],
        )
    return int(positions[0]) - leak.position if len(positions) else None
