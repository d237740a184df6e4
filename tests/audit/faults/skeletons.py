"""Bodies that hold a fault: five ways people write a small language model, and sound attention.

The parts at fault are in the other files, each beside the clean part it replaces.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import CONTEXT, VOCABULARY, Output


def split(x: Tensor, heads: int) -> Tensor:
    """batch pos (head d) → batch head pos d."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join(x: Tensor) -> Tensor:
    """batch head pos d → batch pos (head d)."""
    return x.transpose(1, 2).flatten(2)


def triangle(n: int, diagonal: int = 0) -> Tensor:
    """True where query i may look at key j: j ≤ i + diagonal."""
    return torch.ones(n, n, dtype=torch.bool).tril(diagonal)


def mlp(width: int) -> nn.Sequential:
    """Two layers with a GELU between."""
    return nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))


class RMSNorm(nn.Module):
    """x / √mean(x²), times a learned scale; in the precision of its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class CausalAttention(nn.Module):
    """softmax(q·k/√d) v with −inf above the diagonal: the sound one."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def allowed(self, n: int) -> Tensor:
        return triangle(n)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~self.allowed(x.shape[1]), -torch.inf)
        return self.out(join(scores.softmax(dim=-1) @ v))


class PreNorm(nn.Module):
    """x + mixer(norm x), then x + mlp(norm x)."""

    def __init__(self, width: int, mixer: nn.Module) -> None:
        super().__init__()
        self.ln_1, self.mixer = nn.LayerNorm(width), mixer
        self.ln_2, self.mlp = nn.LayerNorm(width), mlp(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mixer(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class TinyGPT(nn.Module):
    """minGPT's shape: pre-norm, learned positions, a bare tensor out."""

    def __init__(self, width: int, *mixers: nn.Module, context: int = CONTEXT) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(PreNorm(width, mixer) for mixer in mixers)
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, VOCABULARY, bias=False)

    def places(self, n: int) -> Tensor:
        return torch.arange(n)

    def hidden(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(self.places(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return x

    def forward(self, ids: Tensor) -> Tensor:
        return self.lm_head(self.ln_f(self.hidden(ids)))


class PostNorm(nn.Module):
    """norm(x + mixer x), sine positions, (logits, hidden) out: as in 2017."""

    def __init__(self, width: int, *mixers: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, width)
        self.mix = nn.ModuleList(mixers)
        self.feed = nn.ModuleList(mlp(width) for _ in mixers)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * len(mixers)))
        self.decode = nn.Linear(width, VOCABULARY)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(ids)
        rates = 50.0 ** -torch.linspace(0, 1, x.shape[-1] // 2, dtype=torch.float64)
        angle = torch.arange(ids.shape[1])[:, None] * rates
        x = x + torch.cat([angle.sin(), angle.cos()], dim=-1).to(x)
        for i, (mix, feed) in enumerate(zip(self.mix, self.feed, strict=True)):
            x = self.norms[2 * i](x + mix(x))
            x = self.norms[2 * i + 1](x + feed(x))
        return self.decode(x), x


class Residual(nn.Module):
    """x + inner(norm x)."""

    def __init__(self, width: int, inner: nn.Module) -> None:
        super().__init__()
        self.norm, self.inner = RMSNorm(width), inner

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(self.norm(x))


def sequential(width: int, inners: Sequence[nn.Module]) -> nn.Sequential:
    """An nn.Sequential of residual parts: order is told by the parts, positions are not coded."""
    parts = [Residual(width, part) for inner in inners for part in (inner, mlp(width))]
    ends = (nn.Embedding(VOCABULARY, width), RMSNorm(width), nn.Linear(width, VOCABULARY))
    return nn.Sequential(ends[0], *parts, *ends[1:])


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """Pairs (x_i, x_{i+d/2}) turned by position · 100^(−2i/d); angles in double precision."""
    half = x.shape[-1] // 2
    rates = 100.0 ** -(torch.arange(half, dtype=torch.float64) / half)
    angle = positions.to(torch.float64)[..., None] * rates
    cos, sin = angle.cos().to(x), angle.sin().to(x)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class GroupedAttention(nn.Module):
    """Rotary, four query heads on two key heads; attention_mask hides padding; finite at pads."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(width, width, bias=False)
        self.kv_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def allowed(self, n: int, attention_mask: Tensor | None) -> Tensor:
        causal = triangle(n)[None, None]
        return causal if attention_mask is None else causal & attention_mask[:, None, None].bool()

    def forward(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        n = x.shape[1]
        q = rotated(split(self.q_proj(x), 4), torch.arange(n))
        k, v = (split(part, 2).repeat_interleave(2, 1) for part in self.kv_proj(x).chunk(2, -1))
        k = rotated(k, torch.arange(n))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        lowest = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(~self.allowed(n, attention_mask), lowest)
        return self.o_proj(join(F.softmax(scores, dim=-1) @ v))


class DecoderLayer(nn.Module):
    """Llama's layer: RMSNorm, attention, RMSNorm, gated feed-forward."""

    def __init__(self, width: int, self_attn: nn.Module) -> None:
        super().__init__()
        self.input_layernorm, self.self_attn = RMSNorm(width), self_attn
        self.post_attention_layernorm = RMSNorm(width)
        self.gate_up_proj = nn.Linear(width, 4 * width, bias=False)
        self.down_proj = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), attention_mask)
        gate, up = self.gate_up_proj(self.post_attention_layernorm(x)).chunk(2, dim=-1)
        return x + self.down_proj(F.silu(gate) * up)


class Llamalike(nn.Module):
    """Hugging Face's shape: forward(input_ids, attention_mask=None), an object with .logits."""

    def __init__(self, width: int, *attentions: nn.Module, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(DecoderLayer(width, attention) for attention in attentions)
        self.norm = RMSNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x, attention_mask)
        return Output(self.lm_head(self.norm(x)))
