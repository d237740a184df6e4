"""Leaks through pooled statistics: a mean, norm or maximum over positions or over the batch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import VOCABULARY, Planted, built
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


class BatchNormGPT(TinyGPT):
    """The last norm is a BatchNorm1d over channels: in training mode, statistics of all tokens."""

    def __init__(self) -> None:
        super().__init__(22, CausalAttention(22), CausalAttention(22))
        self.bn = nn.BatchNorm1d(22)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.hidden(ids)
        return self.lm_head(self.bn(x.transpose(1, 2)).transpose(1, 2))


class FrozenBatchNormGPT(BatchNormGPT):
    """Running statistics in both modes: a fixed affine map."""

    def train(self, mode: bool = True) -> "FrozenBatchNormGPT":
        super().train(mode)
        self.bn.eval()
        return self


def _warm(model: BatchNormGPT) -> None:
    """Running statistics that are not the trivial ones."""
    assert model.bn.running_mean is not None and model.bn.running_var is not None
    model.bn.running_mean += torch.linspace(-0.5, 0.5, 22)
    model.bn.running_var *= torch.linspace(0.5, 2.0, 22)


# ------------------------------------------------------------------------------ mean over the batch


class BatchCentred(CausalAttention):
    """Subtracts what is common to the batch at each position: the other rows reach this one."""

    def common(self, x: Tensor) -> Tensor:
        return x.mean(dim=0, keepdim=True)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - self.common(x))


class ChannelCentred(BatchCentred):
    """Subtracts each vector's own mean."""

    def common(self, x: Tensor) -> Tensor:
        return x.mean(dim=-1, keepdim=True)


# ----------------------------------------------------------------- norms over the whole sequence


class GroupNormed(CausalAttention):
    """GroupNorm on (batch, channel, position): its statistics run over positions."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__(width, heads)
        self.norm = nn.GroupNorm(2, width)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.norm(x.transpose(1, 2)).transpose(1, 2))


class GroupNormedEach(GroupNormed):
    """One position at a time: (batch·position, channel)."""

    def forward(self, x: Tensor) -> Tensor:
        return CausalAttention.forward(self, self.norm(x.flatten(0, 1)).view_as(x))


class InstanceNormed(nn.Module):
    """A feed-forward of 1×1 convolutions with InstanceNorm1d between: norms over positions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Conv1d(width, 31, 1), nn.Conv1d(31, width, 1)
        self.norm: nn.Module = nn.InstanceNorm1d(31, affine=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.up(x.transpose(1, 2)))
        return self.down(F.gelu(h)).transpose(1, 2)


class NoInstanceNorm(InstanceNormed):
    """The same without a norm between."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.norm = nn.Identity()


class WholeNorm(nn.Module):
    """Embeddings standardised over positions and channels together, as one does with features."""

    axes: tuple[int, ...] = (1, 2)

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, 26), nn.Embedding(257, 26)
        self.block = PreNorm(26, CausalAttention(26))
        self.out = nn.Linear(26, VOCABULARY)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids)
        x = (x - x.mean(self.axes, keepdim=True)) / x.std(self.axes, keepdim=True)
        return self.out(self.block(x + self.place.weight[: ids.shape[1]]))


class OwnNorm(WholeNorm):
    """Standardised over channels."""

    axes = (2,)


# ----------------------------------------------------------------------------- head re-weighting


class ReweightedHeads(CausalAttention):
    """Heads are mixed by the norm of what they say, taken over the whole row."""

    axes: tuple[int, ...] = (2, 3)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        scores = torch.einsum("bhid,bhjd->bhij", q, k) / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~triangle(x.shape[1]), -torch.inf).softmax(-1)
        heads = torch.einsum("bhij,bhjd->bhid", weights, v)
        size = heads.square().mean(self.axes, keepdim=True).sqrt()
        return self.out(join(heads * self.heads * (size / size.sum(1, keepdim=True))))


class BatchReweightedHeads(ReweightedHeads):
    """The norm of head h is taken at each position over the whole batch."""

    axes = (0, 3)


class OwnReweightedHeads(ReweightedHeads):
    """The norm of each position's own heads."""

    axes = (3,)


# ------------------------------------------------------------------------ one scale for a tensor


class FakeQuantised(nn.Linear):
    """Eight-bit activations with one scale for the whole tensor: the largest entry anywhere."""

    def scale(self, x: Tensor) -> Tensor:
        return x.abs().amax() / 127

    def forward(self, input: Tensor) -> Tensor:
        scale = self.scale(input).clamp_min(1e-6)
        return super().forward((input / scale).round() * scale)


class TokenQuantised(FakeQuantised):
    """One scale a token."""

    def scale(self, x: Tensor) -> Tensor:
        return x.abs().amax(dim=-1, keepdim=True) / 127


def _quantised(kind: type[FakeQuantised]) -> nn.Module:
    return sequential(23, [CausalAttention(23, 1), kind(23, 23)])


# -------------------------------------------------------------------------------------- very small


class Whisper(CausalAttention):
    """A hundred-thousandth of the mean over all positions is added."""

    def summary(self, y: Tensor) -> Tensor:
        return y.mean(dim=1, keepdim=True)

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return y + 1e-5 * self.summary(y)


class RunningWhisper(Whisper):
    """The mean over the positions so far."""

    def summary(self, y: Tensor) -> Tensor:
        return y.cumsum(1) / torch.arange(1, y.shape[1] + 1)[:, None].to(y)


def _post(part: type[CausalAttention], heads: int = 2) -> nn.Module:
    return PostNorm(28, CausalAttention(28), part(28, heads))


PLANTED = (
    Planted(
        name="batch-norm-in-training",
        build=built(BatchNormGPT, 41, _warm),
        build_clean=built(FrozenBatchNormGPT, 41, _warm),
        caught_by=("causality",),
        also=("batch-independence",),
        cause="in training mode the statistics of bn run over all positions and rows",
        where="bn",
        training=True,
        notes="clean in eval mode, where bn uses its running statistics; bn works on (b, c, pos)",
    ),
    Planted(
        name="mean-over-the-batch",
        build=built(lambda: TinyGPT(21, BatchCentred(21, 3), CausalAttention(21, 3)), 42),
        build_clean=built(lambda: TinyGPT(21, ChannelCentred(21, 3), CausalAttention(21, 3)), 42),
        caught_by=("batch-independence",),
        cause="a row depends on the other rows of the batch, from h.0 on",
        where="h.0.mixer",
        notes="no future token is read: rows share equal positions only",
    ),
    Planted(
        name="group-norm-over-positions",
        build=built(lambda: TinyGPT(22, CausalAttention(22), GroupNormed(22)), 43),
        build_clean=built(lambda: TinyGPT(22, CausalAttention(22), GroupNormedEach(22)), 43),
        caught_by=("causality",),
        cause="the norm of h.1 runs over positions",
        where="h.1.mixer",
    ),
    Planted(
        name="instance-norm-over-positions",
        build=built(lambda: sequential(19, [CausalAttention(19, 1), InstanceNormed(19)]), 44),
        build_clean=built(lambda: sequential(19, [CausalAttention(19, 1), NoInstanceNorm(19)]), 44),
        caught_by=("causality",),
        cause="the norm of part 3 runs over positions",
        where="3.inner",
    ),
    Planted(
        name="embedding-standardised-over-sequence",
        build=built(WholeNorm, 45),
        build_clean=built(OwnNorm, 45),
        caught_by=("causality",),
        cause="embeddings are standardised over all positions",
        where="block",
    ),
    Planted(
        name="heads-reweighted-over-row",
        build=built(lambda: _post(ReweightedHeads, 7), 46),
        build_clean=built(lambda: _post(OwnReweightedHeads, 7), 46),
        caught_by=("causality",),
        cause="heads of mix.1 are weighted by a norm over all positions",
        where="mix.1",
    ),
    Planted(
        name="heads-reweighted-over-batch",
        build=built(lambda: _post(BatchReweightedHeads, 4), 47),
        build_clean=built(lambda: _post(OwnReweightedHeads, 4), 47),
        caught_by=("batch-independence",),
        cause="heads of mix.1 are weighted by a norm over the batch",
        where="mix.1",
    ),
    Planted(
        name="one-quantisation-scale",
        build=built(lambda: _quantised(FakeQuantised), 48),
        build_clean=built(lambda: _quantised(TokenQuantised), 48),
        caught_by=("causality", "batch-independence"),
        cause="one activation scale for the whole tensor, in part 3",
        where="3.inner",
        notes="steps: small changes may move nothing, or a whole quantum",
    ),
    Planted(
        name="tiny-leak",
        build=built(lambda: TinyGPT(28, CausalAttention(28), Whisper(28)), 49),
        build_clean=built(lambda: TinyGPT(28, CausalAttention(28), RunningWhisper(28)), 49),
        caught_by=("causality",),
        cause="a hundred-thousandth of the mean over all positions, in h.1",
        where="h.1.mixer",
        notes="above rounding in fp32 and fp64, below it in bf16: there a double copy shows it",
    ),
)
