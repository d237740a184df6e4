"""Leaks that show under one condition: a mask given, training mode, or a long enough input."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import Planted, built
from tests.audit.faults.skeletons import (
    CausalAttention,
    GroupedAttention,
    Llamalike,
    PostNorm,
    TinyGPT,
    join,
    split,
    triangle,
)


class MaskReplacesMask(GroupedAttention):
    """A given attention_mask takes the place of the causal one instead of joining it."""

    def allowed(self, n: int, attention_mask: Tensor | None) -> Tensor:
        if attention_mask is not None:
            return attention_mask[:, None, None, :].bool()
        return triangle(n)[None, None]


# ----------------------------------------------------------------------------- training mode only


class CausalInEval(nn.Module):
    """is_causal=not self.training: the flag was meant for the cached path."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.dropout = heads, 0.1
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def causal(self) -> bool:
        return not self.training

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=self.causal())
        return self.out(join(y))


class CausalAlways(CausalInEval):
    """Causal in both modes, dropout in one."""

    def causal(self) -> bool:
        return True


# --------------------------------------------------------------------- longer than a chunk of 61


class ChunkedAttention(CausalAttention):
    """Queries in chunks of 61 to save memory; only the first chunk is given its mask."""

    chunk = 61

    def bias(self, start: int, stop: int) -> Tensor | None:
        return triangle(stop) if start == 0 else None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        rows = []
        for start in range(0, x.shape[1], self.chunk):
            stop = min(start + self.chunk, x.shape[1])
            keys, values = k[:, :, :stop], v[:, :, :stop]
            bias = self.bias(start, stop)
            part = F.scaled_dot_product_attention(q[:, :, start:stop], keys, values, bias)
            rows.append(part)
        return self.out(join(torch.cat(rows, dim=2)))


class ChunkedClean(ChunkedAttention):
    """Each chunk takes its own rows of the triangle."""

    def bias(self, start: int, stop: int) -> Tensor | None:
        return triangle(stop)[start:stop]


# ------------------------------------------------------------------- longer than a table of 199


class MaskTable(CausalAttention):
    """The mask was made for 199 positions when the context was 199; longer inputs go without."""

    triangle: Tensor

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__(width, heads)
        self.register_buffer("triangle", triangle(self.table()), persistent=False)

    def table(self) -> int:
        return 199

    def allowed(self, n: int) -> Tensor:
        fits = n <= len(self.triangle)
        return self.triangle[:n, :n] if fits else torch.ones(n, n, dtype=torch.bool)


class MaskTableClean(MaskTable):
    """A table of the whole context."""

    def table(self) -> int:
        return 257


def _gpt(attention: type[CausalAttention]) -> nn.Module:
    return TinyGPT(22, attention(22), attention(22))


PLANTED = (
    Planted(
        name="only-when-a-mask-is-given",
        build=built(lambda: Llamalike(24, MaskReplacesMask(24), MaskReplacesMask(24)), 21),
        build_clean=built(lambda: Llamalike(24, GroupedAttention(24), GroupedAttention(24)), 21),
        caught_by=("causality",),
        also=("padding", "mask-strength"),
        cause="sees the future when an attention mask is given",
        where="layers.0.self_attn",
        notes="without attention_mask it is causal; a mask of ones is enough to show it",
    ),
    Planted(
        name="only-in-training-mode",
        build=built(lambda: PostNorm(26, CausalInEval(26, 2), CausalInEval(26, 13)), 22),
        build_clean=built(lambda: PostNorm(26, CausalAlways(26, 2), CausalAlways(26, 13)), 22),
        caught_by=("causality",),
        cause="sees the future in training mode",
        where="mix.0",
        training=True,
        notes="has dropout in training mode: equal draws of the generator are needed to compare",
    ),
    Planted(
        name="only-beyond-61",
        build=built(lambda: _gpt(ChunkedAttention), 23),
        build_clean=built(lambda: _gpt(ChunkedClean), 23),
        caught_by=("causality",),
        cause="sees the future within a chunk, from position 61 on",
        where="h.0.mixer",
        length=97,
        notes="queries 61.. see up to the end of their own chunk of 61",
    ),
    Planted(
        name="only-beyond-199",
        build=built(lambda: _gpt(MaskTable), 24),
        build_clean=built(lambda: _gpt(MaskTableClean), 24),
        caught_by=("causality",),
        cause="sees the future in inputs longer than 199",
        where="h.0.mixer",
        length=211,
    ),
)
