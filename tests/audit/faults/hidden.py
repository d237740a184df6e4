"""Leaks that hide: at one position, behind one id of many, at one length, behind weights of zero.

Each brings its own brute force (`shows`): the standard one would not meet it either.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import VOCABULARY, Planted, built
from tests.audit.faults.proofs import cut_off, every_future, with_labels, woken
from tests.audit.faults.skeletons import CausalAttention, TinyGPT, join, mlp, split, triangle

MANY = 997  # ids


class AtOnePosition(CausalAttention):
    """A mask patched by hand: 5 may look at 6."""

    def allowed(self, n: int) -> Tensor:
        mask = triangle(n)
        if n > 6:
            mask[5, 6] = True
        return mask


class AtChunkEdges(CausalAttention):
    """Chunks of 64 overlap by one: their last query sees the first key of the next."""

    def allowed(self, n: int) -> Tensor:
        last = torch.arange(n - 1)[63::64]
        mask = triangle(n)
        mask[last, last + 1] = True
        return mask


class OpenBeyond512(CausalAttention):
    """Above 512 a fast path is taken, and it has no mask."""

    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool) if n > 512 else triangle(n)


class OpenInEights(CausalAttention):
    """The kernel for lengths that divide by 8 forgets its mask."""

    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool) if n % 8 == 0 else triangle(n)


class SoftFloat(CausalAttention):
    """A mask of −20 that is written in float32 whatever the scores are."""

    depth = -20.0

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        hidden = (~triangle(x.shape[1])).to(torch.float32) * self.depth
        weights = (q @ k.mT / math.sqrt(q.shape[-1]) + hidden).softmax(dim=-1)
        return self.out(join(weights.to(v.dtype) @ v))


class HardFloat(SoftFloat):
    """−1e9: nothing is left of it."""

    depth = -1e9


# --------------------------------------------------------------------------------- many tokens


class ManyIds(nn.Module):
    """A running mean over 997 ids."""

    special = 761

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.feed = nn.Embedding(MANY, 19), mlp(19)
        self.head = nn.Linear(19, MANY)

    def more(self, ids: Tensor, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        past = x.cumsum(1) / torch.arange(1, ids.shape[1] + 1)[:, None].to(x)
        return self.head(x + self.feed(past) + self.more(ids, x))


class OneIdLooksAhead(ManyIds):
    """Id 761 reads its successor."""

    def more(self, ids: Tensor, x: Tensor) -> Tensor:
        return (ids == self.special)[..., None] * F.pad(x[:, 1:], (0, 0, 0, 1))


class SeenBeforeItComes(ManyIds):
    """The position before id 761 knows that it comes."""

    def more(self, ids: Tensor, x: Tensor) -> Tensor:
        return 0.3 * F.pad(ids[:, 1:] == self.special, (0, 1))[..., None].to(x)


class EqualTokens(ManyIds):
    """A copying head that finds its own token anywhere, later too."""

    def allowed(self, n: int) -> Tensor:
        return ~torch.eye(n, dtype=torch.bool)

    def more(self, ids: Tensor, x: Tensor) -> Tensor:
        same = (ids[:, :, None] == ids[:, None]) & self.allowed(ids.shape[1])
        return 0.1 * same.sum(-1, keepdim=True).to(x)


class EqualTokensBefore(EqualTokens):
    """A copying head that finds its own token among earlier ones only."""

    def allowed(self, n: int) -> Tensor:
        return triangle(n, -1)


# --------------------------------------------------------------------------------- the length


class FromTheEnd(TinyGPT):
    """Positions are counted from the end: they tell how much is to come."""

    def places(self, n: int) -> Tensor:
        return torch.arange(n).flip(0)


class Capacity(nn.Module):
    """Experts take the first that come, a quarter of the text each: of a text of unknown length."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(width, 4), nn.ModuleList(mlp(width) for _ in "abcd")

    def room(self, n: int) -> int:
        return max(1, n // 4)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.router(x).softmax(dim=-1)
        chosen = F.one_hot(gate.argmax(dim=-1), 4)
        kept = gate * chosen * (chosen.cumsum(1) <= self.room(x.shape[1]))
        return sum((kept[..., e : e + 1] * self.experts[e](x) for e in range(4)), torch.zeros(()))


class FixedCapacity(Capacity):
    """Three places, however long the text."""

    def room(self, n: int) -> int:
        return 3


# --------------------------------------------------------------------------- not awake, not alone


class Backward(nn.Module):
    """A recurrence from the right, through a gate."""

    def __init__(self, width: int, gate: float) -> None:
        super().__init__()
        self.sound, self.back = CausalAttention(width), nn.GRU(width, width, batch_first=True)
        self.gate, self.start = nn.Parameter(torch.zeros(())), gate

    def turned(self, x: Tensor) -> Tensor:
        return x.flip(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.sound(x) + self.gate * self.turned(self.back(self.turned(x))[0])


class Forward(Backward):
    """A recurrence from the left, through a gate."""

    def turned(self, x: Tensor) -> Tensor:
        return x


def _gated(part: type[Backward], gate: float) -> nn.Module:
    return TinyGPT(22, part(22, gate))


def _set_gate(model: nn.Module) -> None:
    for part in model.modules():
        if isinstance(part, Backward):
            part.gate.fill_(part.start)


def _silence(model: nn.Module) -> None:
    last = [part for part in model.modules() if isinstance(part, CausalAttention)][-1]
    last.out.weight.zero_()
    last.out.bias.zero_()


class Open(CausalAttention):
    """No mask at all."""

    def allowed(self, n: int) -> Tensor:
        return torch.ones(n, n, dtype=torch.bool)


class InLargeBatches(CausalAttention):
    """Eight rows or more are packed, and the mask is lost."""

    many = 8

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y + 0.1 * y.mean(1, keepdim=True) if x.shape[0] >= self.many else y


class Never(InLargeBatches):
    """The same code, but no batch is ever that large."""

    many = 10**9


# ------------------------------------------------------------------------------------- labels


class WithLabels(TinyGPT):
    """forward(ids, labels=None): labels serve the loss only."""

    def read(self, x: Tensor, labels: Tensor) -> Tensor:
        return x

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, ids: Tensor, labels: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        x = self.hidden(ids)
        if labels is None:
            return self.lm_head(self.ln_f(x)), None
        said = self.lm_head(self.ln_f(self.read(x, labels)))
        return said, F.cross_entropy(said.flatten(0, 1), labels.flatten())


class ReadsLabels(WithLabels):
    """A term that was meant for another loss adds the labels to the hidden states."""

    def read(self, x: Tensor, labels: Tensor) -> Tensor:
        return x + 0.2 * self.wte(labels)


def _gpt(part: type[CausalAttention], context: int = 257) -> nn.Module:
    return TinyGPT(22, CausalAttention(22), part(22), context=context)


_SOUND = built(lambda: _gpt(CausalAttention), 101)
PLANTED = (
    Planted(
        name="at-one-position",
        build=built(lambda: _gpt(AtOnePosition), 101),
        build_clean=_SOUND,
        caught_by=("causality",),
        where="h.1.mixer",
        cause="position 5 sees one token ahead",
        shows=every_future(VOCABULARY, 23),
    ),
    Planted(
        name="at-chunk-edges",
        build=built(lambda: _gpt(AtChunkEdges), 101),
        build_clean=_SOUND,
        caught_by=("causality",),
        where="h.1.mixer",
        length=131,
        cause="the last query of a chunk sees one token ahead",
        shows=every_future(VOCABULARY, 131, step=21),  # 63 is among the steps
    ),
    Planted(
        name="beyond-512",
        build=built(lambda: _gpt(OpenBeyond512, 601), 102),
        build_clean=built(lambda: _gpt(CausalAttention, 601), 102),
        caught_by=("causality",),
        where="h.1.mixer",
        context=601,
        length=521,
        shows=every_future(VOCABULARY, 521, step=130),
        cause="sees the future in inputs longer than 512",
    ),
    Planted(
        name="lengths-in-eights",
        build=built(lambda: _gpt(OpenInEights), 103),
        build_clean=built(lambda: _gpt(CausalAttention), 103),
        caught_by=("causality",),
        cause="sees the future where the length is a multiple of 8",
        shows=every_future(VOCABULARY, 16),
    ),
    Planted(
        name="mask-of-twenty-in-float32",
        build=built(lambda: _gpt(SoftFloat), 104),
        build_clean=built(lambda: _gpt(HardFloat), 104),
        caught_by=("causality", "mask-strength"),
        cause="a mask of −20 can be outweighed",
        floor=1e-12,
        shows=every_future(VOCABULARY, 23),
    ),
    Planted(
        name="one-id-looks-ahead",
        build=built(OneIdLooksAhead, 105),
        build_clean=built(ManyIds, 105),
        caught_by=("causality",),
        vocabulary=MANY,
        cause="id 761 sees one token ahead",
        shows=every_future(MANY, 23, holding=761),
    ),
    Planted(
        name="seen-before-it-comes",
        build=built(SeenBeforeItComes, 106),
        build_clean=built(ManyIds, 106),
        caught_by=("causality",),
        vocabulary=MANY,
        cause="the position before id 761 knows that it comes",
        shows=every_future(MANY, 23, holding=761),
    ),
    Planted(
        name="equal-tokens-anywhere",
        build=built(EqualTokens, 107),
        build_clean=built(EqualTokensBefore, 107),
        caught_by=("causality",),
        vocabulary=MANY,
        cause="a token is matched with later ones",
        shows=every_future(MANY, 23, kinds=5),
    ),
    Planted(
        name="positions-from-the-end",
        caught_by=("causality",),
        build=built(lambda: FromTheEnd(22, CausalAttention(22)), 108),
        build_clean=built(lambda: TinyGPT(22, CausalAttention(22)), 108),
        cause="it depends on how long the text is",
        shows=cut_off(VOCABULARY, 23),
    ),
    Planted(
        name="capacity-of-a-quarter",
        caught_by=("causality",),
        build=built(lambda: TinyGPT(22, CausalAttention(22), Capacity(22)), 109),
        build_clean=built(lambda: TinyGPT(22, CausalAttention(22), FixedCapacity(22)), 109),
        cause="it depends on how long the text is",
        shows=cut_off(VOCABULARY, 23),
    ),
    Planted(
        name="behind-a-zero-gate",
        caught_by=("causality",),
        build=built(lambda: _gated(Backward, 0.0), 110, _set_gate),
        build_clean=built(lambda: _gated(Forward, 0.0), 110, _set_gate),
        cause="the future comes in as soon as a gate opens",
        shows=woken(VOCABULARY, 23),
    ),
    Planted(
        name="behind-a-gate-of-a-billionth",
        caught_by=("causality",),
        build=built(lambda: _gated(Backward, 1e-9), 110, _set_gate),
        build_clean=built(lambda: _gated(Forward, 1e-9), 110, _set_gate),
        cause="a gate of 1e-9 lets the future in",
        floor=1e-12,
        shows=every_future(VOCABULARY, 23),
    ),
    Planted(
        name="behind-zero-projections",
        caught_by=("causality", "mask-strength"),
        build=built(lambda: _gpt(Open), 111, _silence),
        build_clean=built(lambda: _gpt(CausalAttention), 111, _silence),
        cause="no mask, and for now nothing of it comes through",
        shows=woken(VOCABULARY, 23),
    ),
    Planted(
        name="only-in-large-batches",
        build=built(lambda: _gpt(InLargeBatches), 112),
        build_clean=built(lambda: _gpt(Never), 112),
        caught_by=("causality",),
        also=("batch-independence",),
        cause="sees the future in batches of 8 rows or more",
        shows=every_future(VOCABULARY, 23, rows=8),
    ),
    Planted(
        name="reads-its-labels",
        build=built(lambda: ReadsLabels(22, CausalAttention(22)), 113),
        build_clean=built(lambda: WithLabels(22, CausalAttention(22)), 113),
        caught_by=("causality",),
        cause="sees the labels it is given",
        shows=with_labels(VOCABULARY, 23),
    ),
)
