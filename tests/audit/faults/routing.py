"""Routers that decide about a token by looking at others: later ones, or those of other rows."""

import torch
from torch import Tensor, nn

from tests.audit.faults.base import Planted, built
from tests.audit.faults.skeletons import CausalAttention, TinyGPT, mlp, sequential


class Experts(nn.Module):
    """Three experts and a router; `gates` (batch pos expert) says how much of each a token gets."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, 3, bias=False)
        self.experts = nn.ModuleList(mlp(width) for _ in range(3))

    def gates(self, logits: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        gates = self.gates(self.router(x))
        said = torch.stack([expert(x) for expert in self.experts], dim=-1)
        return torch.einsum("btce,bte->btc", said, gates)


class ExpertChoice(Experts):
    """Each expert picks the best third of all tokens of the batch: they compete."""

    def gates(self, logits: Tensor) -> Tensor:
        weights = logits.softmax(-1)
        flat = weights.flatten(0, 1)
        best = flat.topk(max(1, len(flat) // 3), dim=0).indices
        return weights * torch.zeros_like(flat).scatter(0, best, 1.0).view_as(weights)


class MixtureOfDepths(Experts):
    """Half the tokens of a row pass through the layer: the best of the row, later ones included."""

    def gates(self, logits: Tensor) -> Tensor:
        score = logits[..., 0]
        best = score.topk(max(1, score.shape[1] // 2), dim=1).indices
        chosen = torch.zeros_like(score).scatter(1, best, 1.0)
        return (chosen * score.sigmoid())[..., None] * logits.softmax(-1)


class ThresholdDepths(Experts):
    """A token passes when its own score is positive."""

    def gates(self, logits: Tensor) -> Tensor:
        score = logits[..., 0]
        return ((score > 0) * score.sigmoid())[..., None] * logits.softmax(-1)


class TopTwo(Experts):
    """A token goes to its own two best experts: no capacity, no competition."""

    def gates(self, logits: Tensor) -> Tensor:
        best = logits.topk(2, dim=-1)
        weights = best.values.softmax(-1)
        return torch.zeros_like(logits).scatter(-1, best.indices, weights)


class CapacityFromTheEnd(Experts):
    """At most five tokens of a row an expert; those who came last are served first."""

    def queue(self, chosen: Tensor) -> Tensor:
        return chosen.flip(1).cumsum(1).flip(1)

    def gates(self, logits: Tensor) -> Tensor:
        weights = logits.softmax(-1)
        chosen = torch.zeros_like(weights).scatter(-1, weights.argmax(-1, keepdim=True), 1.0)
        return weights * chosen * (self.queue(chosen) <= 5)


class CapacityInOrder(CapacityFromTheEnd):
    """Those who came first are served first."""

    def queue(self, chosen: Tensor) -> Tensor:
        return chosen.cumsum(1)


class BalancedByBatch(Experts):
    """Logits less the mean load of this batch: balance without a loss, by all tokens at once."""

    load: Tensor

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_buffer("load", torch.tensor([0.2, 0.5, 0.3]))

    def busy(self, weights: Tensor) -> Tensor:
        return weights.mean(dim=(0, 1))

    def gates(self, logits: Tensor) -> Tensor:
        return (logits - 3 * self.busy(logits.softmax(-1))).softmax(-1)


class BalancedByHistory(BalancedByBatch):
    """Less the load recorded in training: a constant."""

    def busy(self, weights: Tensor) -> Tensor:
        return self.load


def _mixture(experts: type[Experts]) -> nn.Module:
    return sequential(22, [CausalAttention(22), experts(22)])


PLANTED = (
    Planted(
        name="expert-choice-over-batch",
        build=built(lambda: _mixture(ExpertChoice), 61),
        build_clean=built(lambda: _mixture(TopTwo), 61),
        caught_by=("causality", "batch-independence"),
        cause="experts of part 3 choose among all tokens, later ones and other rows included",
        where="3.inner",
        notes="steps: a change moves others only when it changes who is chosen",
    ),
    Planted(
        name="mixture-of-depths",
        build=built(lambda: TinyGPT(22, CausalAttention(22), MixtureOfDepths(22)), 62),
        build_clean=built(lambda: TinyGPT(22, CausalAttention(22), ThresholdDepths(22)), 62),
        caught_by=("causality",),
        cause="the router of h.1 picks the best tokens of the whole row",
        where="h.1.mixer",
    ),
    Planted(
        name="capacity-from-the-end",
        build=built(lambda: _mixture(CapacityFromTheEnd), 63),
        build_clean=built(lambda: _mixture(CapacityInOrder), 63),
        caught_by=("causality",),
        cause="later tokens push earlier ones out of the experts of part 3",
        where="3.inner",
        notes="the twin drops tokens as well, in the order they came",
    ),
    Planted(
        name="load-of-the-batch",
        build=built(lambda: TinyGPT(22, CausalAttention(22), BalancedByBatch(22)), 64),
        build_clean=built(lambda: TinyGPT(22, CausalAttention(22), BalancedByHistory(22)), 64),
        caught_by=("causality", "batch-independence"),
        cause="the router of h.1 subtracts the mean load over batch and positions",
        where="h.1.mixer",
    ),
)
