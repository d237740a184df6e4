"""Faults of the cached path only: the same model fed whole is sound."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import VOCABULARY, Output, Past, Planted, built, through_past
from tests.audit.faults.skeletons import join, mlp, split, triangle


class CachedLayer(nn.Module):
    """Pre-norm attention over the cache and the chunk."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = mlp(width)

    def forward(
        self, x: Tensor, past: tuple[Tensor, Tensor] | None, allowed: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        q, k, v = (split(part, 2) for part in self.qkv(self.norm_1(x)).chunk(3, -1))
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        x = x + self.out(join(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)))
        return x + self.mlp(self.norm_2(x)), (k, v)


class CachedModel(nn.Module):
    """forward(input_ids, past_key_values=None, use_cache=False), learned positions. Sound."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, 22), nn.Embedding(257, 22)
        self.layers = nn.ModuleList(CachedLayer(22) for _ in range(2))
        self.ln_f, self.lm_head = nn.LayerNorm(22), nn.Linear(22, VOCABULARY, bias=False)

    def allowed(self, before: int, n: int) -> Tensor:
        return triangle(before + n)[before:]

    def first(self, before: int) -> int:
        return before

    def forward(
        self, input_ids: Tensor, past_key_values: Past | None = None, use_cache: bool = False
    ) -> Output:
        n, before = input_ids.shape[1], past_key_values[0][0].shape[2] if past_key_values else 0
        x = self.wte(input_ids) + self.wpe(torch.arange(n) + self.first(before))
        present: Past = []
        for i, layer in enumerate(self.layers):
            past = past_key_values[i] if past_key_values else None
            x, kept = layer(x, past, self.allowed(before, n))
            present.append(kept)
        return Output(self.lm_head(self.ln_f(x)), present if use_cache else None)


class ChunkUnmasked(CachedModel):
    """With a cache the chunk is taken to be one token: longer ones see all of themselves."""

    def allowed(self, before: int, n: int) -> Tensor:
        return torch.ones(n, before + n, dtype=torch.bool) if before else triangle(n)


class TopLeft(CachedModel):
    """The triangle's top left corner: query i of the chunk sees keys 0..i of the cache."""

    def allowed(self, before: int, n: int) -> Tensor:
        return triangle(before + n)[:n]


class PositionLate(CachedModel):
    """Positions of a chunk begin one too early once there is a cache."""

    def first(self, before: int) -> int:
        return max(before - 1, 0)


# ------------------------------------------------------------------ recurrent state, tuple out


class RecurrentModel(nn.Module):
    """forward(ids, state=None) → (logits, state); the state given back is the chunk's first."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 19)
        self.gate, self.value = nn.Linear(19, 19), nn.Linear(19, 19)
        self.head = nn.Linear(19, VOCABULARY)

    def kept(self, states: list[Tensor]) -> Tensor:
        return states[0]

    def forward(self, ids: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x = self.embed(ids)
        keep, new = torch.sigmoid(self.gate(x) + 2), self.value(x)
        states: list[Tensor] = []
        now = torch.zeros_like(x[:, 0]) if state is None else state
        for t in range(ids.shape[1]):
            now = keep[:, t] * now + (1 - keep[:, t]) * new[:, t]
            states.append(now)
        return self.head(x + 3 * torch.stack(states, dim=1)), self.kept(states)


class RecurrentClean(RecurrentModel):
    """The state given back is the last."""

    def kept(self, states: list[Tensor]) -> Tensor:
        return states[-1]


def through_state(model: nn.Module, chunks: list[Tensor]) -> Tensor:
    """Chunk after chunk with the state handed on."""
    state, logits = None, []
    for chunk in chunks:
        part, state = model(chunk, state)
        logits.append(part)
    return torch.cat(logits, dim=1)


PLANTED = (
    Planted(
        name="cached-chunk-unmasked",
        build=built(ChunkUnmasked, 71),
        build_clean=built(CachedModel, 71),
        caught_by=("cache-parity",),
        cause="tokens of one chunk see each other's future once there is a cache",
        cached=through_past,
        notes="one token at a time agrees; only chunks of two or more after a prefill show it",
    ),
    Planted(
        name="cached-mask-top-left",
        build=built(TopLeft, 72),
        build_clean=built(CachedModel, 72),
        caught_by=("cache-parity",),
        cause="with a cache the mask is cut at the top left: new tokens see the first keys only",
        cached=through_past,
    ),
    Planted(
        name="cached-position-off-by-one",
        build=built(PositionLate, 73),
        build_clean=built(CachedModel, 73),
        caught_by=("cache-parity",),
        cause="positions are one off once there is a cache",
        cached=through_past,
    ),
    Planted(
        name="cached-state-is-stale",
        build=built(RecurrentModel, 74),
        build_clean=built(RecurrentClean, 74),
        caught_by=("cache-parity",),
        cause="the state handed on is the chunk's first",
        cached=through_state,
        notes="one token at a time agrees; (logits, state) out, state in as the second argument",
    ),
)
