"""Attention: one dataflow with five seams. What a variant does is in its own file, not here.

q, k, v = project(x)          scores  = on_scores(q·k / √d_head)      heads = weights · v
q, k    = on_heads(q, k)      weights = normalise(scores, allowed)    out   = merge(heads)
"""

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from attnlab.parts.fast import fused_bias, is_fast, needed
from attnlab.parts.mask import Causal, Mask
from attnlab.parts.merge import Concat, Merge
from attnlab.parts.normalise import Normalise, Softmax
from attnlab.parts.part import Dims, Places
from attnlab.parts.position import Position
from attnlab.parts.project import Linear, Project

PerQuery = Float[Tensor, "batch head query d_head"]
PerKey = Float[Tensor, "batch head key d_head"]
PerPair = Float[Tensor, "batch head query key"]
Hidden = Bool[Tensor, "batch key"] | None  # keys nobody may look at: padding
Out = Float[Tensor, "batch query d_model"]


@dataclass(frozen=True)
class Steps:
    """Everything attention computes on the way to `out`."""

    q: PerQuery
    k: PerKey
    v: PerKey
    scores: PerPair
    weights: PerPair
    heads: PerQuery
    out: Out


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

    def steps(
        self,
        x_query: Float[Tensor, "batch query d_model"],
        x_key: Float[Tensor, "batch key d_model"],
        places: Places | None = None,
        hidden: Hidden = None,
    ) -> Steps:
        """Every intermediate; self-attention passes x twice."""
        q, k, v = self.project(x_query, x_key)
        return self.follow(q, k, v, places or Places.of(q, k), hidden)

    def follow(self, q: PerQuery, k: PerKey, v: PerKey, places: Places, hidden: Hidden) -> Steps:
        """From projected queries, keys and values to `out`: the definition."""
        q, k = self.position.on_heads(q, k, places)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        scores = self.position.on_scores(scores, places)
        weights = self.normalise(scores, self.mask.allowed(places, hidden))
        heads = torch.einsum("bhij,bhjd->bhid", weights, v)
        return Steps(q, k, v, scores, weights, heads, self.merge(heads))

    def forward(self, x: Out, places: Places | None = None, hidden: Hidden = None) -> Out:
        """steps(x, x).out at every position that is not hidden, by the shortest exact way."""
        q, k, v = self.project(x, x)
        hidden = needed(hidden, self.mask, self.merge)
        return self.out(q, k, v, places or Places.of(q, k), hidden)

    def out(self, q: PerQuery, k: PerKey, v: PerKey, places: Places, hidden: Hidden) -> Out:
        """follow(…).out, by one fused product where the parts allow it."""
        if not is_fast(self.position, self.normalise):
            return self.follow(q, k, v, places, hidden).out
        q, k = self.position.on_heads(q, k, places)
        bias = fused_bias(q, self.mask, self.position, places, hidden)
        heads = scaled_dot_product_attention(
            q, k, v, attn_mask=bias, is_causal=bias is None, scale=self.scale
        )
        return self.merge(heads)
