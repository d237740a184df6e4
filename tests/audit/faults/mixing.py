"""Mixers other than softmax attention that read the future: convolution, FFT, blocks, scans."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import CONTEXT, Planted, built
from tests.audit.faults.skeletons import (
    CausalAttention,
    PostNorm,
    TinyGPT,
    join,
    sequential,
    split,
)


class SameConv(nn.Module):
    """A gated convolution of width 5 with padding="same": two positions ahead are read."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, 2 * width, kernel_size=5, padding=self.padding())

    def padding(self) -> str | int:
        return "same"

    def forward(self, x: Tensor) -> Tensor:
        return F.glu(self.conv(x.transpose(1, 2))[..., : x.shape[1]], dim=1).transpose(1, 2)


class CausalConv(SameConv):
    """Padded by four on both sides, and cut to the first n: only the past is read."""

    def padding(self) -> str | int:
        return 4


# ---------------------------------------------------------------------------------------- Fourier


def _spectral(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


class FourierMixing(nn.Module):
    """FNet: the real part of a transform over the sequence mixes all positions with all."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fft(_spectral(x), dim=1, norm="ortho").real.to(x.dtype)


class FourierConvolution(nn.Module):
    """A long causal convolution by transforms of twice the length, so that nothing wraps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.zeros(CONTEXT, width))

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        y = torch.fft.rfft(_spectral(x), 2 * n, dim=1)
        y = y * torch.fft.rfft(_spectral(self.filter[:n]), 2 * n, dim=0)
        return torch.fft.irfft(y, 2 * n, dim=1)[:, :n].to(x.dtype)


# ----------------------------------------------------------------------- blocks and memories


class BlockSummaries(CausalAttention):
    """Attention within reach, and the mean of blocks of 7; each block also reads its own mean."""

    block = 7

    def visible(self, means: Tensor) -> Tensor:
        return means

    def forward(self, x: Tensor) -> Tensor:
        n, extra = x.shape[1], -x.shape[1] % self.block
        blocks = F.pad(x, (0, 0, 0, extra)).unflatten(1, (-1, self.block))
        means = self.visible(blocks.mean(2)).repeat_interleave(self.block, dim=1)
        return super().forward(x) + means[:, :n]


class EarlierBlocks(BlockSummaries):
    """A block reads the mean of the block before it."""

    def visible(self, means: Tensor) -> Tensor:
        return F.pad(means[:, :-1], (0, 0, 1, 0))


class CompressedMemory(nn.Module):
    """Infini-attention: causal within segments of 11, plus a memory Σ φ(k) vᵀ of the segments.

    The memory is updated before it is read, so a segment reads its own end.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def step(self, memory: Tensor, read: Tensor, write: Tensor) -> tuple[Tensor, Tensor]:
        memory = memory + write
        return memory, read @ memory

    def forward(self, x: Tensor) -> Tensor:
        memory, parts = x.new_zeros(len(x), x.shape[-1], x.shape[-1]), []
        for segment in x.split(11, dim=1):
            q, k, v = self.qkv(segment).chunk(3, dim=-1)
            local = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            memory, old = self.step(memory, F.elu(q) + 1, (F.elu(k) + 1).mT @ v / 11)
            parts.append(local + old / x.shape[-1])
        return self.out(torch.cat(parts, dim=1))


class CausalMemory(CompressedMemory):
    """Read, then updated."""

    def step(self, memory: Tensor, read: Tensor, write: Tensor) -> tuple[Tensor, Tensor]:
        return memory + write, read @ memory


# ------------------------------------------------------------------------------- linear attention


class LinearAttention(nn.Module):
    """φ(q) Σ φ(k) vᵀ / φ(q) Σ φ(k), both sums over the whole sequence."""

    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv, self.to_out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def sums(self, kv: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return kv.sum(2, keepdim=True), k.sum(2, keepdim=True)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split(part, self.heads) for part in self.to_qkv(x).chunk(3, dim=-1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state, total = self.sums(torch.einsum("bhnd,bhne->bhnde", k, v), k)
        top = (q[..., None] * state).sum(-2)
        return self.to_out(join(top / (q * total).sum(-1, keepdim=True)))


class WholeNormaliser(LinearAttention):
    """The sum above is causal, the one below is not."""

    def sums(self, kv: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return kv.cumsum(2), k.sum(2, keepdim=True)


class CausalLinearAttention(LinearAttention):
    """Both sums over the positions so far."""

    def sums(self, kv: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return kv.cumsum(2), k.cumsum(2)


PLANTED = (
    Planted(
        name="symmetric-convolution",
        build=built(lambda: TinyGPT(22, CausalAttention(22), SameConv(22)), 51),
        build_clean=built(lambda: TinyGPT(22, CausalAttention(22), CausalConv(22)), 51),
        caught_by=("causality",),
        cause="the convolution of h.1 reads two tokens ahead",
        where="h.1.mixer",
    ),
    Planted(
        name="fourier-mixing",
        build=built(lambda: PostNorm(22, FourierMixing(), CausalAttention(22)), 52),
        build_clean=built(lambda: PostNorm(22, FourierConvolution(22), CausalAttention(22)), 52),
        caught_by=("causality",),
        cause="a Fourier transform mixes all positions in mix.0",
        where="mix.0",
        notes="later tokens move the clean twin by rounding: 1e-6 in fp32, 1e-15 in fp64",
    ),
    Planted(
        name="block-summary-of-own-block",
        build=built(lambda: TinyGPT(20, CausalAttention(20), BlockSummaries(20)), 53),
        build_clean=built(lambda: TinyGPT(20, CausalAttention(20), EarlierBlocks(20)), 53),
        caught_by=("causality",),
        cause="reads the mean of its own block of 7, to the end of the block",
        where="h.1.mixer",
    ),
    Planted(
        name="memory-of-own-segment",
        build=built(lambda: sequential(16, [CompressedMemory(16), CompressedMemory(16)]), 54),
        build_clean=built(lambda: sequential(16, [CausalMemory(16), CausalMemory(16)]), 54),
        caught_by=("causality",),
        cause="reads a memory of its own segment of 11, to the end of the segment",
        where="1.inner",
    ),
    Planted(
        name="linear-attention-of-the-whole",
        build=built(lambda: PostNorm(26, LinearAttention(26), LinearAttention(26)), 55),
        build_clean=built(lambda: PostNorm(26, *(CausalLinearAttention(26) for _ in "ab")), 55),
        caught_by=("causality",),
        cause="the state of linear attention includes the future",
        where="mix.0",
    ),
    Planted(
        name="linear-attention-whole-normaliser",
        build=built(lambda: TinyGPT(26, CausalLinearAttention(26), WholeNormaliser(26)), 56),
        build_clean=built(lambda: TinyGPT(26, *(CausalLinearAttention(26) for _ in "ab")), 56),
        caught_by=("causality",),
        cause="the normaliser of linear attention in h.1 includes the future",
        where="h.1.mixer",
    ),
)
