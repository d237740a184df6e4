"""Filters of logits: removed tokens become −inf, others are unchanged (temperature scales them).

    kept = Filters(temperature=0.8, top_k=20)(logits)       # (row, vocab) -> (row, vocab)

The order is fixed: repetition → temperature → top-k → top-p → min-p → typical. Where tokens tie for
the last place, the lowest id has it; so it is for every filter and for the likeliest token. A −inf
is a token that cannot come; NaN, +inf and a row of nothing but −inf are refused. Each filter is the
identity, bit for bit, at its neutral setting, which is its default.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core.errors import UsageError

Scores = Float[Tensor, "row vocab"]
Seen = Bool[Tensor, "row vocab"]
NO_NUMBERS = "the model's logits are NaN or infinite: no token can be chosen"
LARGEST = sys.float_info.max
Rule = tuple[str, Callable[[Any], bool]]
SHARE: Rule = ("lie in 0 … 1", lambda p: 0 <= p <= 1)
RULES: dict[str, Rule] = {  # what a setting must, and whether a value does
    "repetition": ("be a number > 0", lambda x: 0 < x <= LARGEST),
    "temperature": ("be a number >= 0", lambda x: 0 <= x <= LARGEST),
    "top_k": (
        "be a whole number >= 0",
        lambda k: isinstance(k, int) and not isinstance(k, bool) and k >= 0,
    ),
    "top_p": SHARE,
    "min_p": SHARE,
    "typical": SHARE,
}
FEW = 128  # the likeliest tokens, sorted first: a nucleus is seldom larger


def check_finite(logits: Scores) -> Scores:
    """Return the logits; UsageError for NaN, +inf, or a row in which every token is −inf."""
    if not bool(torch.isfinite(logits.amax(dim=-1)).all()):
        raise UsageError(NO_NUMBERS)
    return logits


def likeliest(logits: Scores) -> Int[Tensor, " row"]:
    """The id with the largest logit; among equals the lowest id."""
    return logits.argmax(dim=-1)


def repetition_penalty(logits: Scores, penalty: float, seen: Seen) -> Scores:
    """Tokens of the text so far: l / penalty if l > 0, else l · penalty (Keskar et al. 2019)."""
    _check("repetition", penalty)
    if penalty == 1:
        return logits
    lowered = torch.where(check_finite(logits) > 0, logits / penalty, logits * penalty)
    return check_finite(torch.where(seen, lowered, logits))  # a tiny penalty may overflow


def temperature(logits: Scores, t: float) -> Scores:
    """(l − max l) / t; t = 0 keeps the likeliest token alone."""
    _check("temperature", t)
    if t == 1:
        return logits
    best = check_finite(logits).amax(dim=-1, keepdim=True)
    return _keep_one(logits, likeliest(logits)) if t == 0 else (logits - best) / t


def top_k(logits: Scores, k: int) -> Scores:
    """Keep the k likeliest tokens; 0, or the vocabulary size or more: keep all."""
    _check("top_k", k)
    if k == 0 or k >= logits.shape[-1]:
        return logits
    last = check_finite(logits).topk(k, dim=-1).values[:, -1:]
    keep = logits >= last
    if int(keep.sum()) > k * len(keep):  # some tie for the last place
        above, ties = logits > last, logits == last
        room = k - above.sum(dim=-1, keepdim=True)
        keep = above | (ties & (ties.cumsum(dim=-1) <= room))
    return _keep(keep, logits)


def top_p(logits: Scores, p: float) -> Scores:
    """Keep the fewest likeliest tokens with total probability p (Holtzman et al. 2020); 1: all."""
    _check("top_p", p)
    return logits if p == 1 else _smallest_set(logits, check_finite(logits), p)


def min_p(logits: Scores, p: float) -> Scores:
    """Keep tokens at least p times as likely as the likeliest (Nguyen et al. 2024); 1: only it."""
    _check("min_p", p)
    if p == 0:
        return logits
    if p == 1:
        return _keep_one(logits, likeliest(check_finite(logits)))
    best = check_finite(logits).amax(dim=-1, keepdim=True)
    return _keep(logits >= best + math.log(p), logits)


def typical(logits: Scores, p: float) -> Scores:
    """The fewest tokens of surprise nearest to the entropy whose probability reaches p; 1: all.

    Meister et al. 2023. p = 0 keeps the most typical token, which need not be the likeliest.
    """
    _check("typical", p)
    if p == 1:
        return logits
    log_p = check_finite(logits).log_softmax(dim=-1)
    entropy = -(log_p.exp() * log_p).nansum(dim=-1, keepdim=True)  # 0 · −inf counts nothing
    return _smallest_set(-(log_p + entropy).abs(), logits, p)


def _smallest_set(rank: Scores, logits: Scores, p: float) -> Scores:
    """Keep tokens from the highest rank down until their probability reaches p; at least one."""
    log_total, size = logits.logsumexp(dim=-1, keepdim=True), logits.shape[-1]
    sorted_few = FEW
    while True:
        best = rank.topk(min(sorted_few, size), dim=-1)
        reached = (logits.gather(-1, best.indices) - log_total).exp().cumsum(dim=-1) >= p
        if sorted_few >= size or bool(reached[:, -1].all()):
            break
        sorted_few *= 16
    place = (~reached).sum(dim=-1, keepdim=True).clamp_max(reached.shape[-1] - 1)
    last = best.values.gather(-1, place)
    keep = rank >= last
    if int(keep.sum()) > int((place + 1).sum()):  # some tie for the last place
        above, ties = rank > last, rank == last
        chance = (logits - log_total).exp()
        mass = (chance * above).sum(dim=-1, keepdim=True)
        before = (chance * ties).cumsum(dim=-1) - chance  # of ties with a lower id
        first = ties & (ties.cumsum(dim=-1) == 1)
        keep = above | first | (ties & (mass + before < p))
    return _keep(keep, logits)


def _keep_one(logits: Scores, ids: Int[Tensor, " row"]) -> Scores:
    tokens = torch.arange(logits.shape[-1], device=logits.device)
    return _keep(tokens == ids[:, None], logits)


def _keep(keep: Seen, logits: Scores) -> Scores:
    return logits.masked_fill(~keep, -torch.inf)


def _check(name: str, value: float) -> None:
    """UsageError where the setting of a filter is not what it must be."""
    words, accepts = RULES[name]
    if not accepts(value):
        raise UsageError(f"{name.replace('_', '-')} must {words}, got {value}")


ORDER: dict[str, Callable[[Scores, Any], Scores]] = {
    "temperature": temperature,
    "top_k": top_k,
    "top_p": top_p,
    "min_p": min_p,
    "typical": typical,
}


@dataclass(frozen=True, kw_only=True)
class Filters:
    """All filters in their fixed order; the default values change nothing."""

    repetition: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    typical: float = 1.0

    def __post_init__(self) -> None:
        for name in RULES:
            _check(name, getattr(self, name))

    def __call__(self, logits: Scores, seen: Seen | None = None) -> Scores:
        """Apply all filters; `seen` masks the tokens of the text so far."""
        logits = check_finite(logits)
        if seen is not None:
            logits = repetition_penalty(logits, self.repetition, seen)
        for name, function in ORDER.items():
            logits = function(logits, getattr(self, name))
        return logits

    @property
    def active(self) -> tuple[tuple[str, float], ...]:
        """Name and value of every filter that has an effect, in order."""
        plain = Filters()
        values = ((name, getattr(self, name)) for name in ("repetition", *ORDER))
        return tuple((name.replace("_", "-"), v) for name, v in values if v != getattr(plain, name))
