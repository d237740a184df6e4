"""What is remembered or drawn at times, rows that share a mask, a mask upside down, rare NaN."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.audit.faults.base import VOCABULARY, Output, Planted, built
from tests.audit.faults.hidden import MANY, ManyIds
from tests.audit.faults.proofs import (
    Shows,
    double,
    logits,
    moved,
    padded,
    tensor_of,
    tokens,
)
from tests.audit.faults.skeletons import (
    CausalAttention,
    GroupedAttention,
    Llamalike,
    TinyGPT,
    triangle,
)


class StaleMask(CausalAttention):
    """The mask is made at the first call; a longer text sees all that lies beyond it."""

    kept: Tensor | None = None

    def allowed(self, n: int) -> Tensor:
        if self.kept is None:
            self.kept = triangle(n)
        more = n - len(self.kept)
        return self.kept[:n, :n] if more <= 0 else F.pad(self.kept, (0, more, 0, more), value=True)


class FreshMask(StaleMask):
    """The mask is made again for a longer text."""

    def allowed(self, n: int) -> Tensor:
        if self.kept is None or len(self.kept) < n:
            self.kept = triangle(n)
        return self.kept[:n, :n]


class Calibrated(CausalAttention):
    """Divides by the largest number of the first batch that ever came."""

    largest: float | None = None

    def scale(self, x: Tensor) -> float:
        if self.largest is None:
            self.largest = float(x.abs().max())
        return self.largest

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x / self.scale(x))


class Fixed(Calibrated):
    """Divides by three, whatever came before."""

    def scale(self, x: Tensor) -> float:
        return 3.0


class LeftOut(CausalAttention):
    """Leaves itself out once in twenty times, in evaluation too."""

    def off(self) -> bool:
        return bool(torch.rand(()) < 0.05)

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x) if self.off() else super().forward(x)


class LeftOutInTraining(LeftOut):
    """Leaves itself out in training only."""

    def off(self) -> bool:
        return self.training and super().off()


def after_another(model: nn.Module) -> float:
    """How far an answer moves when a shorter text was read before it."""
    ids = tokens(VOCABULARY, 3, 23, seed=4)
    first = logits(model, ids)
    return max(_after(model, ids[:, :n].flip(0), ids, first) for n in (5, 11))


def _after(model: nn.Module, earlier: Tensor, ids: Tensor, first: Tensor) -> float:
    for part in model.modules():
        for name in ("kept", "largest"):
            if name in vars(part):
                delattr(part, name)
    logits(model, earlier)
    return moved(first, logits(model, ids))


def now_and_then(model: nn.Module) -> float:
    """The largest difference among a hundred answers to one question."""
    ids = tokens(VOCABULARY, 1, 7)
    with torch.no_grad():
        said = [tensor_of(model(ids)) for _ in range(100)]
    return max(moved(said[0], other) for other in said[1:])


# ----------------------------------------------------------------------------------- the mask


class FromMask(Llamalike):
    """Learned positions, counted from the first real token of each row."""

    def __init__(self) -> None:
        super().__init__(24, GroupedAttention(24))
        self.place = nn.Embedding(257, 24)

    def positions(self, seen: Tensor) -> Tensor:
        return (seen.cumsum(1) - 1).clamp_min(0)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Output:
        seen = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        x = self.embed_tokens(input_ids) + self.place(self.positions(seen.long()))
        for layer in self.layers:
            x = layer(x, attention_mask)
        return Output(self.lm_head(self.norm(x)))


class FromMaskOfTheFirstRow(FromMask):
    """Positions of all rows are those of the first row."""

    def positions(self, seen: Tensor) -> Tensor:
        return super().positions(seen[:1])


class UpsideDown(GroupedAttention):
    """Hides what the mask says is real."""

    def hides(self, attention_mask: Tensor) -> Tensor:
        return attention_mask.bool()

    def allowed(self, n: int, attention_mask: Tensor | None) -> Tensor:
        own = torch.eye(n, dtype=torch.bool)[None, None]
        if attention_mask is None:
            return triangle(n)[None, None]
        return triangle(n)[None, None] & (~self.hides(attention_mask)[:, None, None] | own)


class RightWayUp(UpsideDown):
    """Hides what it says is padding."""

    def hides(self, attention_mask: Tensor) -> Tensor:
        return ~attention_mask.bool()


def padded_batch(model: nn.Module) -> float:
    """How far a row with pads on its left moves when it is alone."""
    ids = tokens(VOCABULARY, 3, 17)
    seen = (torch.arange(17) >= torch.tensor([[0], [3], [6]])).long()
    together = logits(model, ids, seen)
    alone = [logits(model, ids[row][None], seen[row][None]) for row in range(3)]
    return moved(together[:, 6:], torch.cat(alone)[:, 6:])


def five_pads(model: nn.Module) -> float:
    """How far real tokens move behind five pads."""
    return padded(double(model), tokens(VOCABULARY, 2, 13), 5, 0)


# ------------------------------------------------------------------------------- blind, or NaN


class BlindBeyond200(CausalAttention):
    """Keys from 200 on were never written."""

    last = 200

    def allowed(self, n: int) -> Tensor:
        mask = triangle(n)
        mask[:, self.last :] = False
        return mask | torch.eye(n, dtype=torch.bool)


class BlindNowhere(BlindBeyond200):
    """All keys were written."""

    last = 10**6


def blind_at_250(model: nn.Module) -> float:
    """1 where no later output reads input 250."""
    ids = tokens(VOCABULARY, 1, 257)
    other = ids.clone()
    other[0, 250] = (ids[0, 250] + 1) % VOCABULARY
    return float(torch.equal(logits(model, ids)[:, 251:], logits(model, other)[:, 251:]))


class NaNForOneId(ManyIds):
    """Row 761 of a table was never set."""

    def more(self, ids: Tensor, x: Tensor) -> Tensor:
        return torch.where((ids == self.special)[..., None], torch.nan, x)


class NaNForOneToken(ManyIds):
    """The spread over positions, of one position."""

    def more(self, ids: Tensor, x: Tensor) -> Tensor:
        spread = (x - x.mean(1, keepdim=True)).square().sum(1, keepdim=True)
        return 0.0 * spread / (x.shape[1] - 1)


class NaNForEqualNeighbours(ManyIds):
    """The direction from one token to the next: there is none where they are equal."""

    def more(self, ids: Tensor, x: Tensor) -> Tensor:
        step = F.pad(x[:, 1:] - x[:, :-1], (0, 0, 1, 0), value=1.0)
        return 0.1 * step / step.norm(dim=-1, keepdim=True)


def nan_in(ids: Tensor) -> Shows:
    """1 where the answer to these ids is not finite."""
    return lambda model: float(not logits(model, ids).isfinite().all())


def _gpt(part: type[CausalAttention]) -> nn.Module:
    return TinyGPT(22, CausalAttention(22), part(22))


def _masked(part: type[UpsideDown]) -> nn.Module:
    return Llamalike(24, part(24), part(24))


PLANTED = (
    Planted(
        name="stale-mask",
        build=built(lambda: _gpt(StaleMask), 121),
        build_clean=built(lambda: _gpt(FreshMask), 121),
        caught_by=("eval-determinism",),
        cause="it remembers the length of the first text",
        shows=after_another,
    ),
    Planted(
        name="calibrated-on-the-first-text",
        build=built(lambda: _gpt(Calibrated), 122),
        build_clean=built(lambda: _gpt(Fixed), 122),
        caught_by=("eval-determinism",),
        also=("causality", "batch-independence"),
        cause="it remembers the first text",
        shows=after_another,
        notes="asked anew each time, it divides by the largest of all rows",
    ),
    Planted(
        name="a-layer-left-out-at-times",
        build=built(lambda: _gpt(LeftOut), 123),
        build_clean=built(lambda: _gpt(LeftOutInTraining), 123),
        caught_by=("eval-determinism",),
        cause="a layer is drawn away, now and then",
        shows=now_and_then,
    ),
    Planted(
        name="positions-of-the-first-row",
        build=built(FromMaskOfTheFirstRow, 124),
        build_clean=built(FromMask, 124),
        caught_by=("batch-independence",),
        also=("padding",),
        cause="positions of all rows are counted in the first",
        shows=padded_batch,
    ),
    Planted(
        name="mask-upside-down",
        build=built(lambda: _masked(UpsideDown), 125),
        build_clean=built(lambda: _masked(RightWayUp), 125),
        caught_by=("padding",),
        also=("coverage",),
        cause="the mask is read upside down",
        shows=five_pads,
    ),
    Planted(
        name="blind-beyond-200",
        build=built(lambda: TinyGPT(22, BlindBeyond200(22)), 126),
        build_clean=built(lambda: TinyGPT(22, BlindNowhere(22)), 126),
        caught_by=("coverage",),
        length=257,
        cause="no output reads an input beyond 200",
        shows=blind_at_250,
    ),
    Planted(
        name="nan-for-one-id",
        build=built(NaNForOneId, 127),
        build_clean=built(ManyIds, 127),
        caught_by=("non-finite",),
        vocabulary=MANY,
        cause="id 761 gives NaN",
        shows=nan_in(torch.tensor([[3, 761, 5]])),
    ),
    Planted(
        name="nan-for-one-token",
        build=built(NaNForOneToken, 128),
        also=("causality",),
        build_clean=built(ManyIds, 128),
        caught_by=("non-finite",),
        vocabulary=MANY,
        cause="a text of one token gives NaN",
        shows=nan_in(torch.tensor([[3]])),
    ),
    Planted(
        name="nan-for-equal-neighbours",
        build=built(NaNForEqualNeighbours, 129),
        build_clean=built(ManyIds, 129),
        caught_by=("non-finite",),
        vocabulary=MANY,
        cause="two equal tokens in a row give NaN",
        shows=nan_in(torch.tensor([[3, 8, 8]])),
    ),
)
