"""Sound models that look suspicious: what is drawn, kept, masked late, or zero for now."""

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.audit import check
from attnlab.core.seeds import Seed

from .faults.base import VOCABULARY, Planted, built, failures
from .faults.skeletons import CausalAttention, TinyGPT, join, mlp, split, triangle

WIDTH = 22


class MaskedAfter(CausalAttention):
    """Softmax over everything, then the future is taken out and the rest brought to 1."""

    again = True

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1) * triangle(x.shape[1])
        weights = weights / weights.sum(dim=-1, keepdim=True) if self.again else weights
        return self.out(join(weights @ v))


class NotBroughtToOne(MaskedAfter):
    """The fault beside it: the future is in the sum."""

    again = False


class DroppingExperts(nn.Module):
    """Each token to its best expert; experts drop, as many draws as tokens come to them."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 3), nn.ModuleList(mlp(WIDTH) for _ in "abc")

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        gate, best = self.router(flat).softmax(dim=-1).max(dim=-1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            here = best == i
            out[here] = F.dropout(expert(flat[here]), 0.2, self.training) * gate[here, None]
        return out.view_as(x)


class LeftOutByPython(CausalAttention):
    """Left out in training, as Python's own generator says."""

    def forward(self, x: Tensor) -> Tensor:
        off = self.training and random.random() < 0.3
        return torch.zeros_like(x) if off else super().forward(x)


class OwnGenerator(CausalAttention):
    """Drops in training, by a generator of its own."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.draws = Seed(2).torch_generator()

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y * (torch.rand(y.shape, generator=self.draws) > 0.1) if self.training else y


class Counting(CausalAttention):
    """Counts its calls and keeps its mask: no answer depends on either."""

    calls, kept = 0, None

    def allowed(self, n: int) -> Tensor:
        self.calls += 1
        if self.kept is None or len(self.kept) < n:
            self.kept = triangle(n)
        return self.kept[:n, :n]


class ByBlocks(CausalAttention):
    """A token is read once its block of 4 is full, and by its own position."""

    def allowed(self, n: int) -> Tensor:
        block = torch.arange(n) // 4
        return (block[:, None] > block) | torch.eye(n, dtype=torch.bool)


class TotalMinusRest(nn.Module):
    """The sum so far as the whole sum less what comes after: causal but for rounding."""

    def forward(self, x: Tensor) -> Tensor:
        rest = x.flip(1).cumsum(1).flip(1) - x
        return (x.sum(1, keepdim=True) - rest) / torch.arange(1, x.shape[1] + 1)[:, None]


class InBfloat16(CausalAttention):
    """Computes in 16 bits whatever it is given."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x).to(torch.bfloat16)
        return (y * torch.tensor(1.5, dtype=torch.bfloat16)).to(x.dtype)


def _gpt(mixer: Callable[[int], nn.Module]) -> nn.Module:
    return built(lambda: TinyGPT(WIDTH, CausalAttention(WIDTH), mixer(WIDTH)), 131)()


def _zero_head() -> nn.Module:
    model = _gpt(CausalAttention)
    nn.init.zeros_(model.get_parameter("lm_head.weight"))
    return model


class Pairs(nn.Module):
    """A table of pairs: what comes after each token."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids)


SOUND: dict[str, Callable[[], nn.Module]] = {
    **{
        part.__name__: (lambda part=part: _gpt(part))
        for part in (
            MaskedAfter,
            LeftOutByPython,
            OwnGenerator,
            Counting,
            ByBlocks,
            InBfloat16,
        )
    },
    "experts that drop": lambda: _gpt(lambda width: DroppingExperts()),
    "total minus rest": lambda: _gpt(lambda width: TotalMinusRest()),
    "head of zeros": _zero_head,
    "table of pairs": Pairs,
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_model_raises_no_alarm(name: str) -> None:
    assert failures(check(SOUND[name](), length=67)) == {}


def test_a_mask_after_the_softmax_must_bring_the_rest_to_one() -> None:
    assert "causality" in failures(check(_gpt(NotBroughtToOne), length=23))


def test_banned_ids_do_not_hide_a_leak_nor_make_one() -> None:
    def banned(leak: float) -> Callable[[Tensor], Tensor]:
        table = torch.randn(VOCABULARY, VOCABULARY, generator=Seed(1).torch_generator())

        def score(ids: Tensor) -> Tensor:
            x = table[ids].cumsum(1) / 9
            x = x + leak * x.mean(1, keepdim=True)
            return torch.cat([x[..., :-3], torch.full_like(x[..., -3:], -1e9)], dim=-1)

        return score

    assert failures(check(banned(0.0), length=23)) == {}
    assert "causality" in failures(check(banned(0.3), length=23))


def test_a_vocabulary_as_large_as_the_text_is_long_is_no_attention() -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(23, 8)

        def forward(self, ids: Tensor) -> Tensor:
            return (self.table(ids).cumsum(1) @ self.table.weight.T).log_softmax(dim=-1)

    found = check(Small(), only=["mask-strength"])
    assert found["mask-strength"].verdict == "not-applicable"


def test_a_model_that_draws_is_not_called_a_leak() -> None:
    class Drawing(TinyGPT):
        def forward(self, ids: Tensor) -> Tensor:
            return super().forward(ids) * (1 + 0.01 * random.SystemRandom().random())

    model = built(lambda: Drawing(WIDTH, CausalAttention(WIDTH)), 132)()
    found = check(model, only=["eval-determinism", "causality", "batch-independence", "coverage"])
    assert failures(found).keys() == {"eval-determinism"}
    assert "eval-determinism" in found["causality"].why


def test_the_cause_is_named() -> None:
    from .faults import PLANTED_BY_NAME

    def why(name: str, audit: str) -> str:
        fault: Planted = PLANTED_BY_NAME[name]
        return check(fault.build(), only=[audit], length=67)[audit].why

    assert "the length of the text" in why("positions-from-the-end", "causality")
    assert "which is all zero" in why("behind-a-zero-gate", "causality")
    assert "in a batch of" in why("only-in-large-batches", "causality")
    assert "label" in why("reads-its-labels", "causality")
    assert "keeps state" in why("stale-mask", "eval-determinism")
    assert "draws" in why("a-layer-left-out-at-times", "eval-determinism")
    assert "inverted" in why("mask-upside-down", "padding")
    assert "padded on the left" in why("positions-of-the-first-row", "batch-independence")
