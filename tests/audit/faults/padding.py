"""Padding that reaches real tokens: through positions, attention, a mean, or rows that see nothing.

All take attention_mask (1 = real token), here and there by keyword only.
"""

import torch
from torch import Tensor, nn

from tests.audit.faults.base import VOCABULARY, Output, Planted, built
from tests.audit.faults.skeletons import (
    DecoderLayer,
    GroupedAttention,
    Llamalike,
    RMSNorm,
    join,
    mlp,
    split,
    triangle,
)


class PlacedModel(nn.Module):
    """forward(ids, *, attention_mask=None), learned positions counted from the first column."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, 24), nn.Embedding(257, 24)
        self.layers = nn.ModuleList(DecoderLayer(24, GroupedAttention(24)) for _ in range(2))
        self.final, self.head = RMSNorm(24), nn.Linear(24, VOCABULARY, bias=False)

    def positions(self, seen: Tensor) -> Tensor:
        return torch.arange(seen.shape[1]).expand_as(seen)

    def forward(self, ids: Tensor, *, attention_mask: Tensor | None = None) -> Tensor:
        seen = torch.ones_like(ids) if attention_mask is None else attention_mask.long()
        x = self.token(ids) + self.place(self.positions(seen))
        for layer in self.layers:
            x = layer(x, attention_mask)
        return self.head(self.final(x))


class PlacedByMask(PlacedModel):
    """Positions count real tokens."""

    def positions(self, seen: Tensor) -> Tensor:
        return (seen.cumsum(1) - 1).clamp_min(0)


# -------------------------------------------------------------------------------- mask unread


class PadsAttended(GroupedAttention):
    """Takes the mask and does not look at it."""

    def allowed(self, n: int, attention_mask: Tensor | None) -> Tensor:
        return triangle(n)[None, None]


# ------------------------------------------------------------------------------- a mean over n


class MeanSoFar(nn.Module):
    """A running sum of real tokens over the length of the row, padding included, beside attention.

    At any one length it is causal; the length itself is what leaks.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention, self.mix = GroupedAttention(width), nn.Linear(width, width)

    def count(self, seen: Tensor) -> Tensor:
        return torch.full_like(seen, seen.shape[1])

    def forward(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        seen = torch.ones_like(x[..., :1]) if attention_mask is None else attention_mask[..., None]
        total = (x * seen.to(x)).cumsum(1) / self.count(seen.to(x))
        return self.attention(x, attention_mask) + self.mix(4 * total)


class MeanOfSeen(MeanSoFar):
    """Over the number of real tokens so far."""

    def count(self, seen: Tensor) -> Tensor:
        return seen.cumsum(1).clamp_min(1)


# ---------------------------------------------------------------------------- rows that see nothing


class Encoderish(nn.Module):
    """−inf for padding and future: a row of padding sees nothing, its softmax is 0/0.

    The second layer multiplies that NaN by a weight of zero, which is NaN for every row.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 22)
        self.qkv = nn.ModuleList(nn.Linear(22, 66) for _ in range(2))
        self.norm = nn.ModuleList(nn.LayerNorm(22) for _ in range(4))
        self.feed = nn.ModuleList(mlp(22) for _ in range(2))
        self.head = nn.Linear(22, VOCABULARY)

    def seen(self, allowed: Tensor) -> Tensor:
        return allowed

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        n, x = input_ids.shape[1], self.embed(input_ids)
        allowed = triangle(n)[None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, :].bool()
        bias = torch.zeros(allowed.shape).to(x).masked_fill(~self.seen(allowed), -torch.inf)
        for i, (qkv, feed) in enumerate(zip(self.qkv, self.feed, strict=True)):
            q, k, v = (split(part, 2) for part in qkv(x).chunk(3, dim=-1))
            x = self.norm[2 * i](x + join((q @ k.mT / 11**0.5 + bias[:, None]).softmax(-1) @ v))
            x = self.norm[2 * i + 1](x + feed(x))
        return Output(self.head(x))


class SelfSeen(Encoderish):
    """Every row sees at least itself."""

    def seen(self, allowed: Tensor) -> Tensor:
        return allowed | torch.eye(allowed.shape[-1], dtype=torch.bool)


PLANTED = (
    Planted(
        name="left-padding-shifts-positions",
        build=built(PlacedModel, 81),
        build_clean=built(PlacedByMask, 81),
        caught_by=("padding",),
        cause="left padding shifts the learned positions",
        notes="attention_mask by keyword only; right padding moves nothing",
    ),
    Planted(
        name="padding-attended",
        build=built(lambda: Llamalike(32, PadsAttended(32), PadsAttended(32)), 82),
        build_clean=built(lambda: Llamalike(32, GroupedAttention(32), GroupedAttention(32)), 82),
        caught_by=("padding",),
        cause="left padding is attended to: attention_mask is not read",
        notes="right padding moves nothing",
    ),
    Planted(
        name="right-padding-in-the-mean",
        build=built(lambda: Llamalike(24, MeanSoFar(24), GroupedAttention(24)), 83),
        build_clean=built(lambda: Llamalike(24, MeanOfSeen(24), GroupedAttention(24)), 83),
        caught_by=("padding",),
        also=("causality",),
        cause="a mean divides by the padded length: right padding moves it, and left padding",
        notes="without pads too: how long the text is says something about the future",
    ),
    Planted(
        name="nan-at-rows-of-padding",
        build=built(Encoderish, 84),
        build_clean=built(SelfSeen, 84),
        caught_by=("padding", "non-finite"),
        cause="rows of left padding see nothing and become NaN, then all rows",
        notes="without padding all is finite; the clean twin has -inf too, but no empty row",
    ),
)
