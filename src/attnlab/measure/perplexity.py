"""The two quantities that are reported as perplexity, and perplexity by sentence length.

    of the corpus:      exp(Σ NLL / Σ scored tokens)
    mean of sentences:  mean over sentences of exp(NLL of the sentence / its scored tokens)

The second is larger (short, unusual sentences count as much as long ones); never mix the two.
Targets equal to IGNORE are not scored. Sums are float64, along a row from left to right and
over rows exactly rounded, so batch size and padding change nothing, not even the last bit, as
long as the model's output for a row does not depend on the other rows. For models where it does,
`sentence_perplexity` scores a row alone.
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

ScoringBatch = tuple[Tensor, Tensor, Tensor | None]  # ids, targets, padding_mask
# (ids, targets, padding_mask) -> NLL of every token, 0 where it is not scored, (batch pos)
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
        """Both perplexities; rows without a scored token do not count as sentences."""
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
        """Perplexity by sentence length; empty bins are left out."""
        bins = []
        for low, high in zip(edges, [*edges[1:], math.inf], strict=True):
            inside = (self.tokens >= low) & (self.tokens < high)
            if inside.any():
                part = Scores(self.nll[inside], self.tokens[inside])
                bins.append(LengthBin(low, high, int(inside.sum()), part.perplexity))
        return tuple(bins)


def token_nll(logits: Callable[[Tensor, Tensor | None], Tensor]) -> TokenNLL:
    """-ln softmax(logits)[target] of every token, from a function (ids, padding_mask) -> logits."""

    def nll(
        ids: Int[Tensor, "batch pos"],
        targets: Int[Tensor, "batch pos"],
        padding_mask: Bool[Tensor, "batch pos"] | None,
    ) -> Float[Tensor, "batch pos"]:
        scores = logits(ids, padding_mask).flatten(0, 1)
        scores = scores if scores.dtype == torch.float64 else scores.float()
        each = torch.nn.functional.cross_entropy(
            scores, targets.flatten(), ignore_index=IGNORE, reduction="none"
        )
        return each.view(targets.shape)

    return nll


@torch.no_grad()
def score(nll: TokenNLL, batches: Iterable[ScoringBatch], device: str = "cpu") -> Scores:
    """NLL of every row of every batch, in order."""
    sums, counts = [np.empty(0)], [np.empty(0, dtype=np.int64)]
    for ids, targets, padding_mask in batches:
        mask = None if padding_mask is None else padding_mask.to(device)
        each = nll(ids.to(device), targets.to(device), mask).double().cpu().numpy()
        scored = (targets != IGNORE).cpu().numpy()
        # accumulate adds from left to right: a padded position adds 0, which changes no bit
        sums.append(np.add.accumulate(np.where(scored, each, 0.0), axis=1)[:, -1])
        counts.append(scored.sum(axis=1))
    return Scores(np.concatenate(sums), np.concatenate(counts))


@torch.no_grad()
def corpus_perplexity(
    nll: Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor | int]],
    batches: Iterable[ScoringBatch],
) -> Perplexity:
    """The corpus perplexity only, from a model that returns (Σ NLL, scored tokens) of a batch.

    Faster than `score` for a model that never computes all logits at once; the result then depends
    on the batch size in its last digits.
    """
    sums, tokens = [], 0
    for ids, targets, padding_mask in batches:
        loss, count = nll(ids, targets, padding_mask)
        sums.append(float(loss))
        tokens += int(count)
    return Perplexity(_sum(sums), tokens)


def sentence_perplexity(
    nll: TokenNLL, row: Ids, device: str = "cpu", context: int | None = None
) -> float:
    """exp(NLL / tokens) of one row, scored in a batch by itself; its first token is not scored.

    A row longer than `context` (default: any length is read at once) is cut into windows.
    """
    if len(row) < 2:
        raise UsageError("perplexity needs at least two tokens")
    whole = windows(row, min(context or len(row), len(row) - 1))
    return score(nll, whole, device).perplexity.corpus


def windows(row: Ids, context: int, stride: int | None = None) -> Iterator[ScoringBatch]:
    """Cut a text of any length into windows of `context` ids; each token is scored exactly once.

    a b c d e f g h i        context 4, stride 2 (default: the context, no token read twice)
    a b c d         -> b c d e
        c d e f     -> _ _ f g      the first context - stride positions are context only
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
