"""The histogram task, and the model: one attention layer between embeddings and a small read-out.

How often does the token that stands here stand in this row (Cui et al. 2024, arXiv 2402.03902)?

    row      c  a  c  b  c  a
    answer   3  2  3  1  3  2

Tokens are drawn evenly and anew for every step: rows repeat so rarely that nothing can be learnt by
heart. In the model nothing goes past the attention:

    x_i = token[t_i] + position[i]        logits_i = W₂ relu(W₁ norm(attention(x)_i))

Tokens start in the first half of the coordinates, positions in the second. A start decides which
half queries and keys see: while it is held, the other half of their maps is 0, so that the scores
are made of tokens alone ("semantic") or of positions alone ("positional"). Freed, all may change.
Values always see both. Because x is a sum and the maps have no bias, a score is the sum of four
terms,

    s_ij = t_i·M t_j  +  t_i·M p_j  +  p_i·M t_j  +  p_i·M p_j,        M = W_qᵀ W_k / √width

of which each can be measured, and taken alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from attnlab.core.seeds import Seed
from attnlab.parts.attention import Attention
from attnlab.parts.initialise import linear, normal, normal_
from attnlab.parts.mask import Full, OnlySelf
from attnlab.parts.part import Dims
from attnlab.parts.position import NoPosition
from attnlab.parts.project import Linear
from attnlab.studies.counting.study import TERMS, CountingSettings

Start = Literal["positional", "semantic", "free", "off"]


@dataclass(frozen=True)
class Rows:
    """A batch: rows × positions."""

    tokens: Tensor
    answer: Tensor


def counts(tokens: Tensor) -> Tensor:
    """answer_i = Σ_j [token_j = token_i]: at least 1, at most the length."""
    return (tokens[:, :, None] == tokens[:, None, :]).sum(dim=-1)


def draw(s: CountingSettings, count: int, seed: Seed) -> Rows:
    """`count` new rows."""
    drawn = seed.numpy_generator().integers(0, s.tokens, size=(count, s.length))
    tokens = torch.from_numpy(drawn)
    return Rows(tokens, counts(tokens))


@dataclass(frozen=True)
class Fresh:
    """Batches for the loop: new rows every step."""

    settings: CountingSettings
    rows: int
    seed: Seed

    def batch(self, step: int) -> Rows:
        """A pure function of the step."""
        return draw(self.settings, self.rows, self.seed.child("step", step))


def loss(model: nn.Module, rows: Any) -> tuple[Tensor, Tensor]:
    """Σ −log p(answer), and how many positions there are."""
    logits, answer = model(rows.tokens).flatten(0, 1), rows.answer.flatten() - 1
    total = nn.functional.cross_entropy(logits, answer, reduction="sum")
    return total, torch.tensor(len(answer))


class Counter(nn.Module):
    """A start of the model; `release` ends what is held."""

    def __init__(self, s: CountingSettings, start: Start, generator: torch.Generator) -> None:
        super().__init__()
        d = s.width
        self.dims = Dims.of(d, heads=1, block=s.length, bias=False)
        parts = Attention.Config(mask=OnlySelf.Config() if start == "off" else Full.Config())
        none = NoPosition.Config().build(self.dims, generator)
        self.attention = Attention(parts, self.dims, none, generator)
        self.token = normal((s.tokens, d), 1.0, generator)
        self.place = normal((s.length, d), 1.0, generator)
        self.norm = nn.LayerNorm(d)
        self.wide = linear(d, s.hidden, True, generator)
        self.read = linear(s.hidden, s.length, True, generator)
        for weight in (self.maps, self.attention.merge.out.weight, self.wide.weight):
            normal_(weight, d**-0.5, generator)
        normal_(self.read.weight, s.hidden**-0.5, generator)
        self._held: list[tuple[nn.Parameter, Tensor]] = []
        self._hooks: list[torch.utils.hooks.RemovableHandle] = []
        if start in ("positional", "semantic"):
            self._hold(start)

    @property
    def maps(self) -> nn.Parameter:
        """The rows of W_q, then W_k, then W_v."""
        assert isinstance(self.attention.project, Linear)
        return cast("nn.Parameter", self.attention.project.qkv.weight)

    def _hold(self, start: Start) -> None:
        """0 and without gradient: half of the tokens, of the positions, of the maps to q and k."""
        d = self.dims.d_model
        first = (torch.arange(d) < d // 2).float()
        maps = torch.ones(3 * d, d)
        maps[: 2 * d] *= first if start == "semantic" else 1 - first
        self._held = [
            (self.token, first.expand_as(self.token)),
            (self.place, (1 - first).expand_as(self.place)),
            (self.maps, maps),
        ]
        for weight, kept in self._held:
            with torch.no_grad():
                weight.mul_(kept)
            self._hooks.append(weight.register_hook(lambda g, kept=kept: g * kept.to(g.device)))

    def held(self) -> float:
        """The largest entry of what is held at 0."""
        entries = (float((w.detach().cpu() * (1 - kept)).abs().max()) for w, kept in self._held)
        return max(entries, default=0.0)

    def release(self, noise: float, generator: torch.Generator) -> None:
        """Everything may change from here; what was 0 is now N(0, noise²)."""
        for hook in self._hooks:
            hook.remove()
        for weight, kept in self._held:
            drawn = normal_(torch.empty(weight.shape), noise, generator)
            with torch.no_grad():
                weight.add_((drawn * (1 - kept)).to(weight.device))
        self._hooks, self._held = [], []

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the counts 1, 2 … at every position."""
        return self.answer(self.attention(self.token[tokens] + self.place))

    def answer(self, attended: Tensor) -> Tensor:
        """The read-out of what attention gives."""
        return self.read(torch.relu(self.wide(self.norm(attended))))

    def weights(self, tokens: Tensor) -> Tensor:
        """The attention maps: row × query × key."""
        x = self.token[tokens] + self.place
        return self.attention.steps(x, x).weights[:, 0]

    def terms(self, tokens: Tensor) -> dict[str, Tensor]:
        """The four terms of the scores, row × query × key; their sum is the score."""
        w_q, w_k, _ = self.maps.chunk(3)
        halves = (self.token[tokens], self.place.expand(len(tokens), -1, -1))
        pairs = [(q @ w_q.T, k @ w_k.T) for q in halves for k in halves]
        found = [torch.einsum("bid,bjd->bij", q, k) * self.attention.scale for q, k in pairs]
        return dict(zip(TERMS, found, strict=True))

    def with_terms(self, tokens: Tensor, kept: Sequence[str]) -> Tensor:
        """The logits where the scores are made of these terms alone; values stay as they are."""
        x = self.token[tokens] + self.place
        terms = self.terms(tokens)
        scores = torch.stack([terms[name] for name in kept]).sum(dim=0)
        values = x @ self.maps.chunk(3)[2].T
        return self.answer(self.attention.merge((scores.softmax(dim=-1) @ values)[:, None]))
