"""The opposite of a leak: inputs that should be read and are not."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import VOCABULARY, Planted, built
from tests.audit.faults.skeletons import CausalAttention, PreNorm, TinyGPT, mlp, triangle

LATENTS, BLOCK = 5, 4


class Cross(nn.Module):
    """Queries of one sequence, keys and values of another."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)

    def forward(self, x: Tensor, y: Tensor, allowed: Tensor) -> Tensor:
        k, v = self.kv(y).chunk(2, dim=-1)
        return F.scaled_dot_product_attention(self.q(x), k, v, attn_mask=allowed)


class Perceiver(nn.Module):
    """Inputs → 5 latents → inputs. The triangle is cut [:latents, :inputs], at the top left:
    latent i reads inputs 0..i, and the inputs beyond the fifth are read by none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCABULARY, 20), nn.Embedding(257, 20)
        self.latents = nn.Parameter(torch.zeros(1, 83, 20))
        self.down, self.up, self.norm = Cross(20), Cross(20), nn.LayerNorm(20)
        self.mlp, self.head = mlp(20), nn.Linear(20, VOCABULARY)

    def cut(self, n: int) -> tuple[int, Tensor, Tensor]:
        """Number of latents; which inputs a latent reads; which latents an output reads."""
        mask = triangle(max(n, LATENTS))
        return LATENTS, mask[:LATENTS, :n], mask[:n, :LATENTS]

    def local(self, x: Tensor) -> Tensor:
        return x

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.place.weight[: ids.shape[1]]
        latents, reads, read = self.cut(ids.shape[1])
        z = self.latents[:, :latents].expand(len(ids), -1, -1)
        z = self.norm(z + self.down(z, x, reads))
        x = self.local(x) + self.up(x, z, read)
        return self.head(x + self.mlp(x))


class BlockPerceiver(Perceiver):
    """Latent i reads all inputs up to the end of block i; an output reads the latents of blocks
    that are over, and its own block by attention.
    """

    def __init__(self) -> None:
        super().__init__()
        self.near = PreNorm(20, CausalAttention(20))

    def cut(self, n: int) -> tuple[int, Tensor, Tensor]:
        ends = torch.arange(n // BLOCK + 1) * BLOCK
        ends[0] = 1  # the first latent reads the first input only, so that no output reads none
        reads = torch.arange(n) < ends[:, None]
        return len(ends), reads, ends <= torch.arange(n)[:, None] + 1

    def local(self, x: Tensor) -> Tensor:
        return self.near(x)


# ------------------------------------------------------------------------------ half of the context


class HalfTable(CausalAttention):
    """The mask was made for 31 keys and is filled up with False: later keys are never read."""

    def allowed(self, n: int) -> Tensor:
        table = triangle(61)[:, :31]
        return F.pad(table, (0, 30))[:n, :n]


# ------------------------------------------------------------------------------- result not used


class Discarded(PreNorm):
    """The result of attention is computed, and the line that adds it is missing."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln_1(x)
        self.mixer(y)
        return y + self.mlp(self.ln_2(y))


class NotDiscarded(Discarded):
    """It is added."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.ln_1(x)
        y = y + self.mixer(y)
        return y + self.mlp(self.ln_2(y))


def _blocks(block: type[PreNorm]) -> nn.Module:
    model = TinyGPT(22, CausalAttention(22), CausalAttention(22))
    model.h = nn.ModuleList(block(22, CausalAttention(22)) for _ in range(2))
    return model


PLANTED = (
    Planted(
        name="perceiver-blind",
        build=built(Perceiver, 91),
        build_clean=built(BlockPerceiver, 91),
        caught_by=("coverage",),
        cause="inputs from position 5 on are read by no other position",
        notes="in the fault outputs read themselves and inputs 0..4",
    ),
    Planted(
        name="second-half-unread",
        build=built(lambda: TinyGPT(22, HalfTable(22), HalfTable(22), context=61), 93),
        build_clean=built(
            lambda: TinyGPT(22, CausalAttention(22), CausalAttention(22), context=61), 93
        ),
        caught_by=("coverage",),
        cause="inputs from position 31 on are read by no other position",
        context=61,
        length=59,
    ),
    Planted(
        name="attention-discarded",
        build=built(lambda: _blocks(Discarded), 94),
        build_clean=built(lambda: _blocks(NotDiscarded), 94),
        caught_by=("coverage", "attention-matters"),
        cause="an output reads its own token only: the result of attention is not used",
    ),
)
