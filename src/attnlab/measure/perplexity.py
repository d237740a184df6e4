"""Perplexity, the two that are reported under one name, and how it depends on length.

    of the corpus:      exp(Σ NLL / Σ scored tokens)
    mean of sentences:  mean over sentences of exp(NLL of the sentence / its scored tokens)

The second is larger (short, odd sentences count as much as long ones); they are never mixed.
Targets equal to IGNORE are not scored. Sums are float64, along a row from left to right and
over rows exactly rounded, so batch size and padding change nothing, not even the last bit, as
long as the model's own output for a row does not depend on its neighbours. Some models' does:
`sentence` scores a row alone.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.core.tokens import IGNORE, Ids

Triple = tuple[Tensor, Tensor, Tensor | None]  # ids, targets, hidden
# (ids, targets, hidden) -> NLL of every token, 0 where it is not scored, (batch pos)
TokenNLL = Callable[[Tensor, Tensor, Tensor | None], Tensor]
EDGES = (1, 3, 6, 11, 21, 41, 81)


@dataclass(frozen=True)
class Perplexity:
    """Σ NLL, Σ scored tokens, and the mean over sentences of exp(loss) (NaN if not known)."""

    nll: float
    tokens: int
    sentence_mean: float = math.nan

    @property
    def corpus(self) -> float:
        """exp(Σ NLL / Σ tokens)."""
        return _exp(self.nll / self.tokens) if self.tokens else math.nan


@dataclass(frozen=True)
class LengthBin:
    """Sentences of low <= scored tokens < high."""

    low: int
    high: float
    sentences: int
    perplexity: Perplexity


@dataclass(frozen=True, eq=False)
class Scores:
    """NLL and scored tokens of every sentence."""

    nll: Float[np.ndarray, " row"]
    tokens: Int[np.ndarray, " row"]

    @property
    def perplexity(self) -> Perplexity:
        """Both perplexities; a row without a scored token is no sentence."""
        each = self.sentences
        mean = _sum(each) / len(each) if len(each) else math.nan
        return Perplexity(_sum(self.nll), int(self.tokens.sum()), mean)

    @property
    def sentences(self) -> Float[np.ndarray, " row"]:
        """exp(NLL / tokens) of every row that has a scored token."""
        some = self.tokens > 0
        with np.errstate(over="ignore"):
            return np.exp(self.nll[some] / self.tokens[some])

    def by_length(self, edges: Sequence[int] = EDGES) -> tuple[LengthBin, ...]:
        """Perplexity against sentence length; bins without a sentence are left out."""
        bins = []
        for low, high in zip(edges, [*edges[1:], math.inf], strict=True):
            inside = (self.tokens >= low) & (self.tokens < high)
            if inside.any():
                part = Scores(self.nll[inside], self.tokens[inside])
                bins.append(LengthBin(low, high, int(inside.sum()), part.perplexity))
        return tuple(bins)


def token_nll(logits: Callable[[Tensor, Tensor | None], Tensor]) -> TokenNLL:
    """-ln softmax(logits)[target] of every token, from a function (ids, hidden) -> logits."""

    def nll(
        ids: Int[Tensor, "batch pos"],
        targets: Int[Tensor, "batch pos"],
        hidden: Bool[Tensor, "batch pos"] | None,
    ) -> Float[Tensor, "batch pos"]:
        scores = logits(ids, hidden).flatten(0, 1)
        scores = scores if scores.dtype == torch.float64 else scores.float()
        each = torch.nn.functional.cross_entropy(
            scores, targets.flatten(), ignore_index=IGNORE, reduction="none"
        )
        return each.view(targets.shape)

    return nll


@torch.no_grad()
def score(nll: TokenNLL, batches: Iterable[Triple], device: str = "cpu") -> Scores:
    """NLL of every row of every batch, in the order they come."""
    sums, counts = [np.empty(0)], [np.empty(0, dtype=np.int64)]
    for ids, targets, hidden in batches:
        padding = None if hidden is None else hidden.to(device)
        each = nll(ids.to(device), targets.to(device), padding).double().cpu().numpy()
        scored = (targets != IGNORE).cpu().numpy()
        # accumulate adds from left to right: a padded place adds 0, which changes no bit
        sums.append(np.add.accumulate(np.where(scored, each, 0.0), axis=1)[:, -1])
        counts.append(scored.sum(axis=1))
    return Scores(np.concatenate(sums), np.concatenate(counts))


@torch.no_grad()
def summed(
    nll: Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor | int]],
    batches: Iterable[Triple],
    device: str = "cpu",
) -> Perplexity:
    """The corpus perplexity alone, from a model that gives (Σ NLL, scored tokens) of a batch.

    Faster than `score` for a model that never forms its logits; batch size then shows in the
    rounding of the model's own sum.
    """
    sums, tokens = [], 0
    for ids, targets, hidden in batches:
        padding = None if hidden is None else hidden.to(device)
        loss, count = nll(ids.to(device), targets.to(device), padding)
        sums.append(float(loss))
        tokens += int(count)
    return Perplexity(_sum(sums), tokens)


def sentence(nll: TokenNLL, row: Ids, device: str = "cpu") -> float:
    """exp(NLL / tokens) of one row in a batch of its own, the first token given."""
    if len(row) < 2:
        raise UsageError("a sentence of fewer than two tokens has no perplexity")
    whole = next(windows(row, len(row) - 1))
    return float(score(nll, [whole], device).sentences[0])


def windows(row: Ids, context: int, stride: int | None = None) -> Iterator[Triple]:
    """A text of any length in pieces of at most `context` ids, each token scored exactly once.

    a b c d e f g h i        context 4, stride 2 (default: the context, no token read twice)
    a b c d         -> b c d e
        c d e f     -> _ _ f g      the first context - stride places only give history
            e f g h -> _ _ h i
    """
    step = context if stride is None else stride
    if not 1 <= step <= context:
        raise UsageError(f"windows: need 1 <= stride <= context, got {step} and {context}")
    ids = torch.as_tensor(np.asarray(row, dtype=np.int64))[None]
    scored_to = 0
    for start in range(0, max(ids.shape[1] - 1, 0), step):
        targets = ids[:, start + 1 : start + context + 1].clone()
        targets[:, : max(scored_to - start, 0)] = IGNORE
        yield ids[:, start : start + targets.shape[1]], targets, None
        scored_to = start + targets.shape[1]
        if scored_to >= ids.shape[1] - 1:
            return


def _sum(values: Iterable[float]) -> float:
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf
