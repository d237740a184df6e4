"""Masks that let the future in: by one token, in one layer or head, for one token, transposed."""

import torch
from torch import Tensor, nn

from tests.audit.faults.base import VOCABULARY, Planted, built
from tests.audit.faults.skeletons import (
    CausalAttention,
    Residual,
    TinyGPT,
    join,
    mlp,
    sequential,
    split,
    triangle,
)


class OneAhead(CausalAttention):
    """tril(diagonal=1): position t also sees t + 1."""

    def allowed(self, n: int) -> Tensor:
        return triangle(n, diagonal=1)


# ----------------------------------------------------------------------------------- one head


class HeadWindows(CausalAttention):
    """Heads of several windows; the head without one forgets that distance ≥ 0 is needed too."""

    windows = (5, None, 11)

    def window(self, distance: Tensor, width: int | None) -> Tensor:
        if width is None:
            return torch.ones_like(distance, dtype=torch.bool)
        return (distance >= 0) & (distance < width)

    def allowed(self, n: int) -> Tensor:
        distance = torch.arange(n)[:, None] - torch.arange(n)
        return torch.stack([self.window(distance, width) for width in self.windows])


class CausalHeadWindows(HeadWindows):
    """distance ≥ 0 for every head."""

    def window(self, distance: Tensor, width: int | None) -> Tensor:
        return (distance >= 0) & (distance < (width or len(distance)))


# ------------------------------------------------------- nn.TransformerEncoder, True = forbidden


class Stock(nn.Module):
    """torch's own encoder as a decoder. Its mask says what is forbidden; this one says the past."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            22, nhead=2, dim_feedforward=37, dropout=0.1, batch_first=True, norm_first=True
        )
        self.tokens, self.places = nn.Embedding(VOCABULARY, 22), nn.Embedding(257, 22)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(22, VOCABULARY)

    def forbidden(self, n: int) -> Tensor:
        return torch.ones(n, n).tril(-1).bool()

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        h = self.tokens(x) + self.places.weight[:n]
        return self.head(self.encoder(h, mask=self.forbidden(n)))


class StockClean(Stock):
    """What is forbidden lies above the diagonal."""

    def forbidden(self, n: int) -> Tensor:
        return torch.ones(n, n).triu(1).bool()


# ------------------------------------------------------------------ softmax over the wrong axis


class SoftmaxOverQueries(nn.Module):
    """The mask is right, but a key's weights sum to one over the queries: later ones included."""

    axis = -2

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part(x), self.heads) for part in (self.q, self.k, self.v))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
        scores = scores + torch.full_like(scores[0, 0], -torch.inf).triu(1)
        return self.o(join(torch.softmax(scores, dim=self.axis) @ v))


class SoftmaxOverKeys(SoftmaxOverQueries):
    """A query's weights sum to one over the keys."""

    axis = -1


def _softmax_axis(attention: type[SoftmaxOverQueries]) -> nn.Module:
    return sequential(26, [attention(26, 2), attention(26, 13)])


# ------------------------------------------------------------------------ one token id is special


class SeparatorLooksAhead(nn.Module):
    """Token 7 separates texts and may read both sides: so it reads what it should predict."""

    separator = 7

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCABULARY, 20), nn.Embedding(257, 20)
        self.qkv = nn.ModuleList(nn.Linear(20, 60) for _ in range(2))
        self.feed = nn.ModuleList(Residual(20, mlp(20)) for _ in range(2))
        self.head = nn.Linear(20, VOCABULARY)

    def allowed(self, ids: Tensor) -> Tensor:
        return triangle(ids.shape[1]) | (ids == self.separator)[:, :, None]

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.place.weight[: ids.shape[1]]
        hidden = ~self.allowed(ids)[:, None]
        for qkv, feed in zip(self.qkv, self.feed, strict=True):
            q, k, v = (split(part, 2) for part in qkv(x).chunk(3, -1))
            weights = (q @ k.mT / 10**0.5).masked_fill(hidden, -torch.inf).softmax(-1)
            x = feed(x + join(weights @ v))
        return self.head(x)


class GlobalTokenSeenByAll(SeparatorLooksAhead):
    """Token 41 is global, as in sparse encoders: every query sees it, also from before it came."""

    separator = 41

    def allowed(self, ids: Tensor) -> Tensor:
        return triangle(ids.shape[1]) | (ids == self.separator)[:, None, :]


class SeparatorClean(SeparatorLooksAhead):
    """Special tokens are read and read others as any token does."""

    def allowed(self, ids: Tensor) -> Tensor:
        return triangle(ids.shape[1]).expand(len(ids), -1, -1)


def _two_sound() -> list[nn.Module]:
    return [CausalAttention(21, 3) for _ in range(2)]


PLANTED = (
    Planted(
        name="mask-off-by-one",
        build=built(lambda: TinyGPT(28, OneAhead(28), OneAhead(28)), 11),
        build_clean=built(lambda: TinyGPT(28, *(CausalAttention(28) for _ in "ab")), 11),
        caught_by=("causality",),
        cause="sees one token ahead in every layer",
        where="h.0.mixer",
        notes="two layers: two tokens ahead in all",
    ),
    Planted(
        name="mask-off-by-one-in-last-layer",
        build=built(lambda: TinyGPT(21, *_two_sound(), OneAhead(21, 3)), 12),
        build_clean=built(lambda: TinyGPT(21, *(CausalAttention(21, 3) for _ in range(3))), 12),
        caught_by=("causality",),
        cause="sees one token ahead, in layer h.2 only",
        where="h.2.mixer",
    ),
    Planted(
        name="one-head-without-mask",
        build=built(lambda: TinyGPT(21, CausalHeadWindows(21, 3), HeadWindows(21, 3)), 13),
        build_clean=built(lambda: TinyGPT(21, *(CausalHeadWindows(21, 3) for _ in range(2))), 13),
        caught_by=("causality",),
        cause="one head of layer h.1 sees all positions",
        where="h.1.mixer",
    ),
    Planted(
        name="transposed-mask",
        build=built(Stock, 14),
        build_clean=built(StockClean, 14),
        caught_by=("causality", "coverage"),
        cause="sees the future and not the past",
        where="encoder.layers.0",
        notes="nn.TransformerEncoder: True means forbidden; its dropout is right",
    ),
    Planted(
        name="softmax-over-queries",
        build=built(lambda: _softmax_axis(SoftmaxOverQueries), 15),
        build_clean=built(lambda: _softmax_axis(SoftmaxOverKeys), 15),
        caught_by=("causality",),
        cause="weights are normalised over the queries, later ones included",
        where="1.inner",
        notes="no future token is attended to, and yet the future is read",
    ),
    Planted(
        name="separator-looks-ahead",
        build=built(SeparatorLooksAhead, 16),
        build_clean=built(SeparatorClean, 16),
        caught_by=("causality",),
        cause="positions holding token 7 see the future",
        where="feed.0",
        notes="shows only where token 7 is in the unchanged part",
    ),
    Planted(
        name="global-token-seen-by-all",
        build=built(GlobalTokenSeenByAll, 17),
        build_clean=built(SeparatorClean, 17),
        caught_by=("causality",),
        cause="token 41 is seen from before it came",
        where="feed.0",
        notes="shows only where token 41 is in the changed part, before or after the change",
    ),
)
