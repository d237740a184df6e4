"""Seam `normalise`: scores of the allowed keys -> weights."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from attnlab.parts.part import Part, Scores

Allowed = Bool[Tensor, "#batch 1 query key"]


class Normalise(Part):
    """Each query on its own. A query that may look at nothing gets weights 0, never NaN."""

    fused: ClassVar[bool] = False  # exactly the softmax, which fused kernels compute

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Normalise"]):
        """Nothing that all normalisers share."""

    def forward(self, scores: Scores, allowed: Allowed) -> Scores:
        """Weights; 0 where looking is not allowed."""
        raise NotImplementedError


def soft(scores: Scores, allowed: Allowed) -> Scores:
    """The softmax over allowed keys."""
    return _mask_scores(scores, allowed).softmax(dim=-1).masked_fill(~allowed, 0)


def one_hot(scores: Scores, allowed: Allowed) -> Scores:
    """1 at the first highest allowed score; held fixed for gradients."""
    best = _mask_scores(scores.detach(), allowed).argmax(dim=-1, keepdim=True)
    return torch.zeros_like(scores).scatter(-1, best, 1).masked_fill(~allowed, 0)


def _mask_scores(scores: Scores, allowed: Allowed) -> Scores:
    """The lowest finite number where looking is not allowed; a row of −∞ would give NaN."""
    return scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
