"""Attention: one dataflow with five seams. What a variant does is in its own file, not here.

q, k, v = project(x)          scores  = on_scores(q·k / √d_head)      heads = weights · v
q, k    = on_heads(q, k)      weights = normalise(scores, allowed)    out   = merge(heads)
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.parts.fast import fused_bias, fused_heads, is_fast, needed_padding_mask
from attnlab.parts.mask import Causal, Mask
from attnlab.parts.merge import Concat, Merge
from attnlab.parts.normalise import Normalise, Softmax
from attnlab.parts.part import Dims, Key, KeyRows, Padding, PositionIds, Query, QueryRows, Scores
from attnlab.parts.position import Position
from attnlab.parts.project import Linear, Project, repeat_heads


@dataclass(frozen=True)
class Steps:
    """Everything attention computes on the way to `out`; shared keys are repeated for each head."""

    q: Query
    k: Float[Tensor, "batch head key d_head"]
    v: Float[Tensor, "batch head key d_head"]
    scores: Scores
    weights: Scores
    heads: Query
    out: QueryRows


class Attention(nn.Module):
    """One layer's attention. The position part is the model's, shared by its layers."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """One field a seam."""

        project: Project.Config = field(default_factory=Linear.Config)
        mask: Mask.Config = field(default_factory=Causal.Config)
        normalise: Normalise.Config = field(default_factory=Softmax.Config)
        merge: Merge.Config = field(default_factory=Concat.Config)

    def __init__(
        self, config: Config, dims: Dims, position: Position, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.project = config.project.build(dims, generator)
        self.mask = config.mask.build(dims, generator)
        self.normalise = config.normalise.build(dims, generator)
        self.merge = config.merge.build(dims, generator)
        self.scale = 1 / math.sqrt(dims.d_head)
        self._shared = (position,)  # in a tuple: it is stored once, with the model

    @property
    def position(self) -> Position:
        """The model's position part."""
        return self._shared[0]

    @property
    def leaks(self) -> str | None:
        """Why a position's output may depend on later positions; None when it cannot."""
        parts = (self.project, self.position, self.normalise, self.merge)
        reasons = [] if self.mask.causal else ["its mask looks ahead"]
        return "; ".join(reasons + [part.leaks for part in parts if part.leaks]) or None

    def qkv(
        self, x_query: QueryRows, x_key: KeyRows, position_ids: PositionIds | None = None
    ) -> tuple[Query, Key, Key, PositionIds]:
        """Queries and keys that know their positions, values, and those positions."""
        q, k, v = self.project(x_query, x_key)
        position_ids = position_ids or PositionIds.of(q, k)
        q, k = self.position.on_heads(q, k, position_ids)
        return q, k, v, position_ids

    def steps(
        self,
        x_query: QueryRows,
        x_key: KeyRows,
        position_ids: PositionIds | None = None,
        key_padding_mask: Padding = None,
    ) -> Steps:
        """Every intermediate; self-attention passes x twice."""
        return self.follow(*self.qkv(x_query, x_key, position_ids), key_padding_mask)

    def follow(
        self, q: Query, k: Key, v: Key, position_ids: PositionIds, padding: Padding
    ) -> Steps:
        """From queries, keys and values to `out`: the definition."""
        k, v = repeat_heads(k, q.shape[1]), repeat_heads(v, q.shape[1])
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        scores = self.position.on_scores(scores, position_ids)
        weights = self.normalise(scores, self.mask.allowed(position_ids, padding))
        heads = torch.einsum("bhij,bhjd->bhid", weights, v)
        return Steps(q, k, v, scores, weights, heads, self.merge(heads))

    def forward(
        self,
        x: QueryRows,
        position_ids: PositionIds | None = None,
        key_padding_mask: Padding = None,
    ) -> QueryRows:
        """steps(x, x).out at every position that is not padding, by the shortest exact way."""
        padding = needed_padding_mask(key_padding_mask, self.mask, self.merge)
        return self.out(*self.qkv(x, x, position_ids), padding)

    def out(
        self, q: Query, k: Key, v: Key, position_ids: PositionIds, padding: Padding
    ) -> QueryRows:
        """follow(…).out, by one fused product where the parts allow it."""
        if not is_fast(self.position, self.normalise):
            return self.follow(q, k, v, position_ids, padding).out
        bias = fused_bias(q, self.mask, self.position, position_ids, padding)
        return self.merge(fused_heads(q, k, v, bias, position_ids.plain, self.scale))
