"""Filters as slow loops over Python floats (the definition), and models whose answers are known."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnlab.core.seeds import Seed

INF = math.inf


def chances(logits: Sequence[float]) -> list[float]:
    best = max(logits)
    weights = [math.exp(x - best) for x in logits]
    return [w / math.fsum(weights) for w in weights]


def ranked(keys: Sequence[float]) -> list[int]:
    """Ids, the highest key first, the lowest id among equals."""
    return sorted(range(len(keys)), key=lambda i: (-keys[i], i))


def first(order: list[int], p: Sequence[float], share: float) -> set[int]:
    """From the front, until their probability reaches the share; at least one."""
    kept, mass = [order[0]], p[order[0]]
    for i in order[1:]:
        if mass >= share:
            break
        kept.append(i)
        mass += p[i]
    return set(kept)


def filtered(logits: Sequence[float], **settings: float) -> list[float]:
    """temperature, top_k, top_p, min_p, typical in this order; each as its paper says."""
    now = list(logits)
    t, k = settings.get("temperature", 1.0), settings.get("top_k", 0)
    now = only(now, {ranked(now)[0]}) if t == 0 else [x / t for x in now]
    if k:
        now = only(now, set(ranked(now)[: int(k)]))
    if settings.get("top_p", 1.0) < 1:
        now = only(now, first(ranked(now), chances(now), settings["top_p"]))
    if settings.get("min_p", 0.0):
        p = chances(now)
        now = only(now, {i for i in range(len(p)) if p[i] >= settings["min_p"] * max(p)})
    if settings.get("typical", 1.0) < 1:
        p = chances(now)
        entropy = -math.fsum(x * math.log(x) for x in p if x)
        off = [abs(-math.log(x) - entropy) if x else INF for x in p]
        now = only(now, first(ranked([-x for x in off]), p, settings["typical"]))
    return now


def only(logits: Sequence[float], kept: set[int]) -> list[float]:
    return [x if i in kept else -INF for i, x in enumerate(logits)]


class Markov:
    """Logits that depend on the last id alone; a row of the table each."""

    name, context = "markov", 1 << 20

    def __init__(self, table: Tensor) -> None:
        self.table, self.vocabulary = table, table.shape[1]
        self.asked: list[tuple[int, int]] = []

    @staticmethod
    def random(vocabulary: int, seed: int = 5, scale: float = 1.5) -> "Markov":
        shape, generator = (vocabulary, vocabulary), Seed(seed).torch_generator()
        return Markov(torch.randn(shape, generator=generator, dtype=torch.float64) * scale)

    def logits(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        assert key_padding_mask is None
        self.asked.append((ids.shape[0], ids.shape[1]))
        return self.table[ids]

    def attentions(self, ids: Tensor) -> list[Any]:
        return []


def surprise(counts: Tensor, chance: Tensor) -> float:
    """p-value of χ² with cells of fewer than 5 expected put together; 0 for what cannot come."""
    from scipy.special import chdtrc

    wanted = chance.double() * counts.sum()
    if bool(counts[wanted == 0].any()):
        return 0.0
    small = wanted < 5
    drawn = torch.cat([counts[~small].double(), counts[small].sum().double()[None]])
    wanted = torch.cat([wanted[~small], wanted[small].sum()[None]])
    drawn, wanted = drawn[wanted > 0], wanted[wanted > 0]
    if len(drawn) == 1:
        return 1.0
    return float(chdtrc(len(drawn) - 1, float(((drawn - wanted) ** 2 / wanted).sum())))
