"""The future read by a shift the wrong way, a wrap around, or a recurrence run backwards."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import VOCABULARY, Planted, built
from tests.audit.faults.skeletons import CausalAttention, RMSNorm, TinyGPT, sequential


class RolledShift(CausalAttention):
    """RWKV's mix with the token before, by torch.roll: before the first comes the last."""

    def before(self, x: Tensor) -> Tensor:
        return x.roll(1, dims=1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(0.6 * x + 0.4 * self.before(x))


class PaddedShift(RolledShift):
    """Before the first comes nothing."""

    def before(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 1, -1))


# ------------------------------------------------------------------------------------- recurrence


class LSTMModel(nn.Module):
    """An LSTM language model made bidirectional because a tutorial on tagging was."""

    def __init__(self, both: bool = True) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 17)
        self.rnn = nn.LSTM(17, 19, batch_first=True, bidirectional=both)
        self.norm = RMSNorm(38 if both else 19)
        self.decoder = nn.Linear(38 if both else 19, VOCABULARY)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        out, (hidden, _) = self.rnn(self.embedding(ids))
        return self.decoder(self.norm(out)), hidden


def _remember(model: LSTMModel) -> None:
    """Forget gates that stay open, as is usual: bias + 2."""
    model.rnn.get_parameter("bias_ih_l0")[19:38] += 2


# ---------------------------------------------------------------------------------- embedding


class BigramEmbedding(TinyGPT):
    """Adds an embedding of the neighbour by roll(−1): the neighbour is the label. Tied head."""

    shift = -1

    def __init__(self) -> None:
        super().__init__(31, CausalAttention(31, 1), CausalAttention(31, 1))
        self.bigram = nn.Embedding(VOCABULARY, 31)
        self.lm_head.weight = self.bigram.weight

    def embed(self, ids: Tensor) -> Tensor:
        return self.wte(ids) + self.bigram(ids.roll(self.shift, dims=1))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.wpe(torch.arange(ids.shape[1], device=ids.device))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class BigramBefore(BigramEmbedding):
    """The neighbour is the token before; the first has none."""

    def embed(self, ids: Tensor) -> Tensor:
        return self.wte(ids) + F.pad(self.bigram(ids[:, :-1]), (0, 0, 1, 0))


def _rely(model: BigramEmbedding) -> None:
    """Quiet everything but the neighbour, as training would: it knows the answer."""
    for quiet in (model.wte.weight, model.wpe.weight):
        quiet *= 0.5
    model.bigram.weight *= 4
    for block in model.h:
        for quiet in ("mixer.out.weight", "mlp.2.weight"):
            block.get_parameter(quiet).mul_(0.3)


PLANTED = (
    Planted(
        name="token-shift-wraps",
        build=built(lambda: sequential(18, [RolledShift(18), RolledShift(18)]), 57),
        build_clean=built(lambda: sequential(18, [PaddedShift(18), PaddedShift(18)]), 57),
        caught_by=("causality",),
        cause="the first position reads the last token",
        where="1.inner",
        notes="shows when the last token changes; all later positions then read the first",
    ),
    Planted(
        name="bidirectional-lstm",
        build=built(LSTMModel, 58, _remember),
        build_clean=built(lambda: LSTMModel(both=False), 58, _remember),
        caught_by=("causality",),
        cause="the recurrence rnn also runs backwards",
        where="rnn",
    ),
    Planted(
        name="embedding-reads-next-token",
        build=built(BigramEmbedding, 59, _rely),
        build_clean=built(BigramBefore, 59, _rely),
        caught_by=("causality", "random-token-floor"),
        cause="the embedding of a position includes the next token: one token ahead",
        where="bigram",
        notes="predicts uniformly random tokens",
    ),
)
