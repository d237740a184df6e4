"""Randomness left on in eval, ties lost in a round trip, NaN of long inputs."""

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import Planted, built
from tests.audit.faults.skeletons import (
    CausalAttention,
    PostNorm,
    PreNorm,
    TinyGPT,
    join,
    sequential,
    split,
    triangle,
)


class FunctionalDropout(CausalAttention):
    """F.dropout without `training=`: its default is True."""

    def dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.1)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropped(super().forward(x))


class FunctionalDropoutClean(FunctionalDropout):
    """Told which mode it is in."""

    def dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.1, training=self.training)


class FreshDropout(FunctionalDropout):
    """A new nn.Dropout in each forward: a new module is in training mode."""

    def dropped(self, x: Tensor) -> Tensor:
        return nn.Dropout(0.1)(x)


class KeptDropout(FunctionalDropout):
    """One nn.Dropout, which eval() reaches."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__(width, heads)
        self.dropout = nn.Dropout(0.1)

    def dropped(self, x: Tensor) -> Tensor:
        return self.dropout(x)


class FusedDropout(nn.Module):
    """scaled_dot_product_attention is given dropout_p in both modes (nanoGPT#240)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def rate(self) -> float:
        return 0.1

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part, 2) for part in self.c_attn(x).split(x.shape[-1], dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate(), is_causal=True)
        return self.c_proj(join(y))


class FusedDropoutClean(FusedDropout):
    """In training mode only."""

    def rate(self) -> float:
        return 0.1 if self.training else 0.0


class NoisyBlock(PreNorm):
    """Noise on the residual stream, to regularise, in both modes."""

    def noise(self, x: Tensor) -> Tensor:
        return 1e-3 * torch.randn_like(x)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.noise(x))


class NoisyInTraining(NoisyBlock):
    """In training mode only."""

    def noise(self, x: Tensor) -> Tensor:
        return 1e-3 * torch.randn_like(x) if self.training else torch.zeros_like(x)


def _noisy(block: type[NoisyBlock]) -> nn.Module:
    model = TinyGPT(22, CausalAttention(22), CausalAttention(22))
    model.h[1] = block(22, CausalAttention(22))
    return model


# ------------------------------------------------------------------------------------ tied weights


class Tied(TinyGPT):
    """Tied by the script that makes it, not by its constructor."""

    def __init__(self) -> None:
        super().__init__(26, CausalAttention(26), CausalAttention(26))

    def tie(self) -> None:
        self.lm_head.weight = self.wte.weight


def tied() -> nn.Module:
    model = Tied()
    model.tie()
    return model


def forget_head(model: nn.Module) -> nn.Module:
    """Shared tensors are stored once; loading is not strict, and nobody ties again."""
    state = {name: w for name, w in model.state_dict().items() if name != "lm_head.weight"}
    fresh = built(Tied, 102)()
    fresh.load_state_dict(load(save(state)), strict=False)
    return fresh


def untie(model: nn.Module) -> nn.Module:
    """Shared tensors are stored twice: equal after loading, and two from then on."""
    state = {name: w.clone() for name, w in model.state_dict().items()}
    fresh = built(Tied, 102)()
    fresh.load_state_dict(load(save(state)))
    return fresh


def keep_tie(model: nn.Module) -> nn.Module:
    """Stored once, tied again."""
    fresh = forget_head(model)
    assert isinstance(fresh, Tied)
    fresh.tie()
    return fresh


# --------------------------------------------------------------------------------- long inputs


class LogDistance(CausalAttention):
    """Scores plus log(1 − distance/199): beyond 199 the logarithm of a negative number."""

    def share(self, distance: Tensor) -> Tensor:
        return 1 - distance / 199

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        q, k, v = (split(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        distance = (torch.arange(n)[:, None] - torch.arange(n)).clamp_min(0).to(x)
        scores = q @ k.mT / q.shape[-1] ** 0.5 + self.share(distance).log()
        return self.out(join(scores.masked_fill(~triangle(n), -torch.inf).softmax(-1) @ v))


class LogDistanceClean(LogDistance):
    """Never below a tenth."""

    def share(self, distance: Tensor) -> Tensor:
        return (1 - distance / 199).clamp_min(0.1)


# ------------------------------------------------------------------------------------------- flag


PLANTED = (
    Planted(
        name="functional-dropout-in-eval",
        build=built(lambda: TinyGPT(22, FunctionalDropout(22), FunctionalDropout(22)), 101),
        build_clean=built(lambda: TinyGPT(22, *(FunctionalDropoutClean(22) for _ in "ab")), 101),
        caught_by=("eval-determinism",),
        cause="two forwards in eval mode differ, from h.0 on: dropout is on",
        where="h.0.mixer",
    ),
    Planted(
        name="dropout-made-in-forward",
        build=built(lambda: PostNorm(22, KeptDropout(22), FreshDropout(22)), 102),
        build_clean=built(lambda: PostNorm(22, KeptDropout(22), KeptDropout(22)), 102),
        caught_by=("eval-determinism",),
        cause="two forwards in eval mode differ, from mix.1 on: dropout is on",
        where="mix.1",
    ),
    Planted(
        name="fused-dropout-in-eval",
        build=built(lambda: sequential(22, [FusedDropout(22), FusedDropout(22)]), 103),
        build_clean=built(lambda: sequential(22, [FusedDropoutClean(22) for _ in "ab"]), 103),
        caught_by=("eval-determinism",),
        cause="two forwards in eval mode differ, from part 1 on: dropout is on",
        where="1.inner",
    ),
    Planted(
        name="noise-in-eval",
        build=built(lambda: _noisy(NoisyBlock), 104),
        build_clean=built(lambda: _noisy(NoisyInTraining), 104),
        caught_by=("eval-determinism",),
        cause="two forwards in eval mode differ, from h.1 on",
        where="h.1",
    ),
    Planted(
        name="tied-head-lost",
        build=built(tied, 105),
        build_clean=built(tied, 105),
        caught_by=("tying-and-save",),
        cause="lm_head and wte are no longer tied after loading, and the logits differ",
        save_load=forget_head,
        clean_save_load=keep_tie,
        notes="the model is sound, its round trip is not",
    ),
    Planted(
        name="tied-head-untied",
        build=built(tied, 106),
        build_clean=built(tied, 106),
        caught_by=("tying-and-save",),
        cause="lm_head and wte are no longer tied after loading",
        save_load=untie,
        clean_save_load=keep_tie,
        notes="logits are bit-equal after loading: only the storage tells, or the next step",
    ),
    Planted(
        name="nan-beyond-199",
        build=built(lambda: TinyGPT(22, CausalAttention(22), LogDistance(22)), 107),
        build_clean=built(lambda: TinyGPT(22, CausalAttention(22), LogDistanceClean(22)), 107),
        caught_by=("non-finite",),
        cause="NaN in h.1 from position 200 on",
        where="h.1.mixer",
        length=211,
    ),
)
