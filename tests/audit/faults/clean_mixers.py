"""Sound models without softmax attention, or with more beside it: scans, convolutions, experts."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import CONTEXT, VOCABULARY, Clean, built
from tests.audit.faults.cached import RecurrentClean, through_state
from tests.audit.faults.mixing import CausalConv, CausalLinearAttention
from tests.audit.faults.routing import CapacityInOrder, TopTwo
from tests.audit.faults.shifted import PaddedShift
from tests.audit.faults.skeletons import CausalAttention, PostNorm, TinyGPT, sequential


class SelectiveScan(nn.Module):
    """Mamba's shape: h ← a(x) h + b(x) x, y = c(x)·h, step by step, gated; a short causal conv."""

    def __init__(self, width: int, states: int = 5) -> None:
        super().__init__()
        self.inner = nn.Linear(width, 2 * width)
        self.conv = nn.Conv1d(width, width, 4, groups=width, padding=3)
        self.rates = nn.Linear(width, 1 + 2 * states)
        self.decay = nn.Parameter(torch.zeros(width, states))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        u, gate = self.inner(x).chunk(2, dim=-1)
        u = F.silu(self.conv(u.mT)[..., :n]).mT
        step, b, c = self.rates(u).split([1, self.decay.shape[1], self.decay.shape[1]], dim=-1)
        step = 0.1 * F.softplus(step)[..., None]
        keep = torch.exp(-step * self.decay.exp())
        write = step * u[..., None] * b[:, :, None]
        h, said = torch.zeros_like(write[:, 0]), []
        for t in range(n):
            h = keep[:, t] * h + write[:, t]
            said.append((h * c[:, t, None]).sum(-1))
        return self.out((torch.stack(said, dim=1) + u) * F.silu(gate))


class WeightedKeyValue(nn.Module):
    """RWKV: a decaying, exponentially weighted mean of values, token shift, a receptance gate."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix, self.speed = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.key, self.value, self.receptance, self.output = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = torch.lerp(x, F.pad(x, (0, 0, 1, -1)), self.mix.sigmoid())
        k, v = self.key(x).clamp_max(9).exp(), self.value(x)
        decay = torch.exp(-0.1 * self.speed.exp())
        top, bottom, said = torch.zeros_like(x[:, 0]), torch.full_like(x[:, 0], 1e-3), []
        for t in range(x.shape[1]):
            top = decay * top + k[:, t] * v[:, t]
            bottom = decay * bottom + k[:, t]
            said.append(top / bottom)
        return self.output(self.receptance(x).sigmoid() * torch.stack(said, dim=1))


class WaveNet(nn.Module):
    """Dilated causal convolutions of width 3: 1 + 2·(1 + 3 + 9 + 27) = 81 inputs an output."""

    receptive_field = 81

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 19)
        self.dilations = (1, 3, 9, 27)
        self.convs = nn.ModuleList(nn.Conv1d(19, 38, 3, dilation=d) for d in self.dilations)
        self.head = nn.Conv1d(19, VOCABULARY, 1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids).transpose(1, 2)
        for conv, dilation in zip(self.convs, self.dilations, strict=True):
            x = x + F.glu(conv(F.pad(x, (2 * dilation, 0))), dim=1)
        return self.head(x).transpose(1, 2)


class Hyena(nn.Module):
    """A long gated convolution by FFT in fp32 always, as its authors have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.filter = nn.Parameter(torch.zeros(width, CONTEXT))

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        a, b, v = self.proj(x).mT.chunk(3, dim=1)
        spectrum = torch.fft.rfft((b * v).float(), 2 * n)
        y = torch.fft.irfft(spectrum * torch.fft.rfft(self.filter[:, :n].float(), 2 * n), 2 * n)
        return self.out((a * y[..., :n].to(x.dtype)).mT)


CLEAN = (
    Clean(
        name="mixture-of-experts-top-two",
        build=built(lambda: sequential(22, [CausalAttention(22), TopTwo(22), TopTwo(22)]), 211),
        notes="no capacity; near-ties flip in bf16: a row moves by 0.3 with the batch shape",
    ),
    Clean(
        name="capacity-in-order",
        build=built(lambda: TinyGPT(22, CausalAttention(22), CapacityInOrder(22)), 212),
        notes="drops tokens, the later ones of a row",
    ),
    Clean(
        name="selective-scan",
        build=built(lambda: sequential(17, [SelectiveScan(17), SelectiveScan(17)]), 213),
    ),
    Clean(
        name="weighted-key-value",
        build=built(lambda: sequential(19, [WeightedKeyValue(19), WeightedKeyValue(19)]), 214),
    ),
    Clean(
        name="recurrent-with-state",
        build=built(RecurrentClean, 215),
        cached=through_state,
        notes="forward(ids, state=None) → (logits, state)",
    ),
    Clean(
        name="dilated-convolutions",
        build=built(WaveNet, 216),
        reach=81,
        notes="blind beyond 81 by design; hidden states are (batch, channel, position)",
    ),
    Clean(
        name="long-convolution-in-fp32",
        build=built(lambda: TinyGPT(22, Hyena(22), Hyena(22)), 217),
        floor=1e-5,
        notes="causal up to rounding; later tokens move earlier logits by 1e-6 also in float64",
    ),
    Clean(
        name="hybrid",
        build=built(
            lambda: PostNorm(
                22,
                CausalConv(22),
                CausalAttention(22),
                SelectiveScan(22),
                CausalLinearAttention(22),
                PaddedShift(22),
            ),
            218,
        ),
    ),
)
