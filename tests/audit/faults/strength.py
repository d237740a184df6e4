"""Finite masks that scores fall below, at the start or after training; scores that are too large.

−10 leaks e^−10 of the weight at the start already; −1e4 is beaten by scores below −1e4, as found
in minGPT#75; and a model with a finite mask trained on random tokens learns to read the answer.
"""

import copy
import functools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import VOCABULARY, Planted, built
from tests.audit.faults.skeletons import TinyGPT, join, split, triangle


class FilledAttention(nn.Module):
    """masked_fill with a finite number."""

    fill = -1e4

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part(x), self.heads) for part in (self.query, self.key, self.value))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(triangle(x.shape[1]).logical_not(), self.fill)
        return self.proj(join(F.softmax(att, dim=-1) @ v))


class FilledTen(FilledAttention):
    """−10: at most e^10 times weaker than a score of zero."""

    fill = -10.0


class FilledInfinite(FilledAttention):
    """No score is lower."""

    fill = -torch.inf


def _beat(model: TinyGPT) -> None:
    """Push scores of layer 1, head 0 to about −2·10⁴ with biases, as a long training run may.

    q = x + (b, b, …), k = x − (b, b, …): q·k/√d ≈ −√d·b², d = 11.
    """
    attention = model.h[1].mixer
    assert isinstance(attention, FilledAttention)
    d_head = 11
    push = math.sqrt(2e4 / math.sqrt(d_head))
    attention.query.bias[:d_head] += push
    attention.key.bias[:d_head] -= push
    attention.key.weight[:d_head] *= 0.1
    attention.query.weight[:d_head] *= 0.1


# -------------------------------------------------------------------------------------- trained


class Reader(nn.Module):
    """One layer, tied head, −10 added above the diagonal. Random tokens teach it only the leak."""

    fill = -10.0

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCABULARY, 32), nn.Embedding(257, 16)
        self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)
        self.v, self.o = nn.Linear(32, 32), nn.Linear(32, 32)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, ids: Tensor) -> Tensor:
        n, x = ids.shape[1], self.embed(ids)
        place = self.place.weight[:n]
        scores = torch.einsum("id,jd->ij", self.q(place), self.k(place)) / 16**0.5
        scores = scores + torch.full_like(scores, self.fill).triu(1)
        x = x + self.o(torch.einsum("ij,bjd->bid", scores.softmax(-1), self.v(x)))
        return F.linear(F.layer_norm(x, (32,)) * self.scale, self.embed.weight)


class SoundReader(Reader):
    """The same with −inf: trained alike it learns nothing, for there is nothing to learn."""

    fill = -torch.inf


def _aim(model: Reader) -> None:
    """Positions on circles, queries turned by one: scores peak at t + 1, above the mask.

    A long run finds this by itself; here only the reading of it is learnt.
    """
    rates = torch.tensor([2.0, 3.0, 5.0, 7.0, 11.0, 13.0, 17.0, 19.0]).sqrt()  # never in step
    angle = torch.arange(257)[:, None] * rates
    model.place.weight.copy_(torch.cat([angle.cos(), angle.sin()], dim=-1))
    cos, sin = torch.diag(rates.cos()), torch.diag(rates.sin())
    turn = torch.cat([torch.cat([cos, -sin], dim=1), torch.cat([sin, cos], dim=1)])
    model.q.weight.copy_(6 * turn)
    model.k.weight.copy_(torch.eye(16))


@functools.lru_cache(maxsize=2)
def _trained(kind: type[Reader], steps: int = 120) -> nn.Module:
    """Adam on uniformly random tokens."""
    model = built(kind, 33, _aim)()
    generator = torch.Generator().manual_seed(34)
    learned = [weight for name, weight in model.named_parameters() if name != "place.weight"]
    optimizer = torch.optim.Adam(learned, lr=0.01)
    for step in range(steps):
        ids = torch.randint(VOCABULARY, (13, (13, 29, 61, 199)[step % 4]), generator=generator)
        logits = model(ids)[:, :-1]
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def trained(kind: type[Reader]) -> nn.Module:
    """A copy of the trained reader: it is trained once a process."""
    return copy.deepcopy(_trained(kind))


# ------------------------------------------------------------------------------ score scale


class Unscaled(FilledInfinite):
    """q·k without 1/√d, d = 64: the softmax picks one key at the start already."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part(x), self.heads) for part in (self.query, self.key, self.value))
        att = (q @ k.mT).masked_fill(~triangle(x.shape[1]), self.fill)
        return self.proj(join(att.softmax(-1) @ v))


def _wide_start(model: nn.Module) -> None:
    """N(0, 1) weights where the width is 64: queries and keys of variance 64, scores of 64³."""
    for module in model.modules():
        if isinstance(module, Unscaled):
            module.query.weight *= 8
            module.key.weight *= 8


PLANTED = (
    Planted(
        name="finite-mask-of-ten",
        build=built(lambda: TinyGPT(22, FilledTen(22, 2), FilledTen(22, 2)), 31),
        build_clean=built(lambda: TinyGPT(22, *(FilledInfinite(22, 2) for _ in "ab")), 31),
        caught_by=("causality", "mask-strength"),
        cause="the mask is -10: future positions keep a weight of about e^-10",
        where="h.0.mixer",
    ),
    Planted(
        name="finite-mask-beaten",
        build=built(lambda: TinyGPT(22, FilledAttention(22, 2), FilledAttention(22, 2)), 32, _beat),
        build_clean=built(lambda: TinyGPT(22, *(FilledInfinite(22, 2) for _ in "ab")), 32, _beat),
        caught_by=("causality", "mask-strength"),
        cause="scores of layer h.1 fall below the mask of -10000",
        where="h.1.mixer",
        notes="without _beat the same model is causal to the bit; the twin has low scores too",
    ),
    Planted(
        name="finite-mask-beaten-by-training",
        build=lambda: trained(Reader),
        build_clean=lambda: trained(SoundReader),
        caught_by=("causality", "mask-strength", "random-token-floor"),
        cause="trained scores fall below the mask of -10, and the next token is read",
        where="o",
        notes="trained on random tokens of lengths 13 to 199; under a second, once a process",
    ),
    Planted(
        name="saturated-softmax",
        build=built(lambda: TinyGPT(64, Unscaled(64, 1), Unscaled(64, 1)), 35, _wide_start),
        build_clean=built(lambda: TinyGPT(64, *(FilledInfinite(64, 1) for _ in "ab")), 35),
        caught_by=("score-scale",),
        also=("coverage", "attention-matters"),
        cause="scores are not divided by the root of the width: the softmax picks one key",
    ),
)
