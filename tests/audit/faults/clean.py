"""Sound models of many kinds with attention: no audit may fail on them, in fp32, bf16 or fp64."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import VOCABULARY, Clean, Output, built, through_past
from tests.audit.faults.cached import CachedModel
from tests.audit.faults.skeletons import (
    CausalAttention,
    GroupedAttention,
    Llamalike,
    PostNorm,
    RMSNorm,
    TinyGPT,
    join,
    mlp,
    split,
    triangle,
)
from tests.audit.faults.state import KeptDropout, keep_tie, tied


class FloatRotary(GroupedAttention):
    """Rotary as Hugging Face has it: angles in fp32 always, so turns add up to rounding only."""

    def turned(self, x: Tensor) -> Tensor:
        d = x.shape[-1]
        rates = 1.0 / (100.0 ** (torch.arange(0, d, 2).float() / d))
        angle = torch.outer(torch.arange(x.shape[2]).float(), rates).repeat(1, 2)
        half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], dim=-1)
        return x * angle.cos().to(x.dtype) + half * angle.sin().to(x.dtype)

    def forward(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        q = self.turned(split(self.q_proj(x), 4))
        k, v = (split(part, 2) for part in self.kv_proj(x).chunk(2, dim=-1))
        allowed = self.allowed(x.shape[1], attention_mask) | torch.eye(x.shape[1]).bool()
        keys, values = self.turned(k).repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        return self.o_proj(join(F.scaled_dot_product_attention(q, keys, values, allowed)))


class FloatNorm(RMSNorm):
    """Llama's RMSNorm: in fp32 whatever comes in, also in a float64 copy."""

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * y.to(x.dtype)


def _float_norms() -> nn.Module:
    model = Llamalike(32, FloatRotary(32), FloatRotary(32))
    for layer in model.layers:
        layer.input_layernorm, layer.post_attention_layernorm = FloatNorm(32), FloatNorm(32)
    model.norm = FloatNorm(32)
    return model


# ------------------------------------------------------------------------------------------ ALiBi


class Alibi(nn.Module):
    """Scores − slope · distance; parallel attention and feed-forward; mask by keyword only."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(59, 21)
        self.fused = nn.ModuleList(nn.Linear(21, 63) for _ in range(3))
        self.proj = nn.ModuleList(nn.Linear(21, 21) for _ in range(3))
        self.norm, self.feed = nn.LayerNorm(21), mlp(21)
        self.head = nn.Linear(21, 59, bias=False)

    def forward(self, ids: Tensor, *, attention_mask: Tensor | None = None) -> Tensor:
        n, x = ids.shape[1], self.embed(ids)
        distance = (torch.arange(n)[:, None] - torch.arange(n)).to(x)
        slope = 2.0 ** -torch.arange(2.0, 8.0, 2.0)[:, None, None].to(x)
        hidden = ~triangle(n)[None, None]
        if attention_mask is not None:
            hidden = hidden | ~attention_mask.bool()[:, None, None, :]
        bias = (-slope * distance).masked_fill(hidden, torch.finfo(x.dtype).min)
        for fused, proj in zip(self.fused, self.proj, strict=True):
            y = self.norm(x)
            q, k, v = (split(part, 3) for part in fused(y).chunk(3, dim=-1))
            x = x + proj(join((q @ k.mT / 7**0.5 + bias).softmax(-1) @ v)) + self.feed(y)
        return self.head(self.norm(x))


# --------------------------------------------------------------------------------- sliding window


class Config:
    """What Hugging Face calls it."""

    sliding_window, vocab_size, max_position_embeddings = 11, VOCABULARY, 257


class Windowed(GroupedAttention):
    """Position t reads t − 10 .. t."""

    def allowed(self, n: int, attention_mask: Tensor | None) -> Tensor:
        near = ~triangle(n, diagonal=-Config.sliding_window)
        return super().allowed(n, attention_mask) & near


class EightKeys(CausalAttention):
    """Keys further back than 7 are cut off."""

    def allowed(self, n: int) -> Tensor:
        return triangle(n) & ~triangle(n, diagonal=-8)


class SlidingWindow(Llamalike):
    """Three layers of a declared window of 11: 31 inputs reach an output."""

    def __init__(self) -> None:
        super().__init__(24, Windowed(24), Windowed(24), Windowed(24))
        self.config = Config()


# ----------------------------------------------------------------------------- relative, capped


class T5Attention(CausalAttention):
    """A learned bias a bucket of distance, logarithmic beyond 8; no 1/√d: small queries instead."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__(width, heads)
        self.bias = nn.Embedding(16, heads)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        far = (torch.arange(n)[:, None] - torch.arange(n)).clamp_min(0)
        log = 8 + (far.clamp_min(8) / 8).log2().mul(2).long()
        bucket = torch.where(far < 8, far, log.clamp_max(15))
        q, k, v = (split(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.mT + self.bias(bucket).permute(2, 0, 1)
        return self.out(join(scores.masked_fill(~triangle(n), -torch.inf).softmax(-1) @ v))


def _small_queries(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, T5Attention):
            width = module.out.in_features
            module.qkv.weight[:width] *= (width / module.heads) ** -0.5


class Capped(nn.Module):
    """Gemma's caps: 5·tanh(s/5) on scores, 30·tanh(z/30) on logits; norms on queries and keys."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(61, 22)
        self.qkv = nn.ModuleList(nn.Linear(22, 66, bias=False) for _ in range(2))
        self.norms = nn.ModuleList(RMSNorm(22) for _ in range(3))
        self.q_norm, self.k_norm, self.feed = RMSNorm(11), RMSNorm(11), mlp(22)

    def forward(self, input_ids: Tensor) -> Output:
        x = self.embed(input_ids) * 22**0.5
        for qkv, norm in zip(self.qkv, self.norms[:2], strict=True):
            q, k, v = (split(part, 2) for part in qkv(norm(x)).chunk(3, dim=-1))
            scores = 5 * torch.tanh(self.q_norm(q) @ self.k_norm(k).mT / 11**0.5 / 5)
            weights = scores.masked_fill(~triangle(x.shape[1]), -torch.inf).softmax(dim=-1)
            x = x + join(weights @ v)
            x = x + self.feed(norm(x))
        return Output(30 * torch.tanh(F.linear(self.norms[2](x), self.embed.weight) * 5 / 30))


CLEAN = (
    Clean(
        name="rotary-grouped-query",
        build=built(lambda: Llamalike(24, GroupedAttention(24), GroupedAttention(24)), 201),
    ),
    Clean(
        name="llama-in-fp32-inside",
        build=built(_float_norms, 202),
        floor=1e-5,
        notes="norms and angles stay in fp32 in a float64 copy: left padding moves it by 1e-6",
    ),
    Clean(name="alibi-parallel", build=built(Alibi, 203), vocabulary=59),
    Clean(
        name="sliding-window",
        build=built(SlidingWindow, 204),
        reach=31,
        notes="blind beyond 31 by design, and declared: config.sliding_window",
    ),
    Clean(
        name="window-in-the-code",
        build=built(lambda: PostNorm(26, EightKeys(26), EightKeys(26)), 92),
        reach=15,
        notes="two layers of 8 keys; no setting says so, and it is no fault all the same",
    ),
    Clean(
        name="t5-relative-bias",
        build=built(
            lambda: TinyGPT(21, T5Attention(21, 3), T5Attention(21, 7)), 205, _small_queries
        ),
    ),
    Clean(name="soft-capped", build=built(Capped, 206), vocabulary=61, notes="tied by F.linear"),
    Clean(
        name="post-norm",
        build=built(lambda: PostNorm(26, CausalAttention(26), CausalAttention(26, 13)), 207),
    ),
    Clean(
        name="dropout-off-in-eval",
        build=built(lambda: TinyGPT(22, KeptDropout(22), KeptDropout(22)), 208),
    ),
    Clean(name="key-value-cache", build=built(CachedModel, 209), cached=through_past),
    Clean(name="tied-and-kept", build=built(tied, 210), save_load=keep_tie),
)
