"""Beam search: keep the `width` likeliest unfinished texts, return the likeliest finished ones.

Of all one-token continuations of the texts in the beam, those that end and are among the `width`
best are kept as endings; the `width` best that do not end go on. A text's score is the sum of its
log-probabilities (after temperature and repetition, if given), so scores only fall, and the search
is over once enough endings score at least as high as the best text that goes on. width = 1 is
greedy. Equal scores: the text that is earlier in the beam, then the lower id.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.decode.filters import Filters, check_finite, top_k
from attnlab.decode.loop import Row, Stop, pad_prompts, token_mask
from attnlab.decode.stepper import stepper_for
from attnlab.models.protocol import LanguageModel


@dataclass(frozen=True)
class Hypothesis:
    """A text, its score, and the log-probabilities of its tokens under the model."""

    score: float
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    ended: bool = False


@dataclass(frozen=True)
class Search:
    """The settings of a beam search."""

    width: int
    filters: Filters
    stop: Stop


def search(model: LanguageModel, row: Row, how: Search, n: int) -> list[Row]:
    """The n best texts after a prompt, or fewer if the search has fewer."""
    ids, _ = pad_prompts([row.prompt], model.context)
    stepper = stepper_for(model, how.width, ids.shape[1] + how.stop.tokens - 1)
    logits = stepper.start(ids.expand(how.width, -1), None)
    beam, endings = [Hypothesis(0.0)], []
    for step in range(how.stop.tokens):
        grown, before = _continuations(logits[: len(beam)], beam, row, how)
        endings += [h for h in grown[: how.width] if h.ended]
        open_ended = [i for i, h in enumerate(grown) if not h.ended][: how.width]
        beam = [grown[i] for i in open_ended]
        if step + 1 == how.stop.tokens or _is_settled(endings, beam, n):
            break
        rows = [before[i] for i in open_ended]
        rows += [0] * (how.width - len(rows))
        stepper.take(torch.tensor(rows, device=logits.device))
        last = [h.ids[-1] for h in beam]
        last += [last[0]] * (how.width - len(last))
        logits = stepper.step(torch.tensor(last, device=logits.device))
    best = sorted([*endings, *beam], key=lambda h: (-h.score, h.ids))[:n]
    return [
        replace(
            row, ids=list(h.ids), logprobs=list(h.logprobs), ended="token" if h.ended else "length"
        )
        for h in best
    ]


def _is_settled(endings: list[Hypothesis], beam: list[Hypothesis], n: int) -> bool:
    """Whether no unfinished text can still become one of the n best."""
    best = sorted(h.score for h in endings)[-n:]
    return not beam or (len(best) == n and best[0] >= beam[0].score)


def _continuations(
    logits: Float[Tensor, "row vocab"], beam: list[Hypothesis], row: Row, how: Search
) -> tuple[list[Hypothesis], list[int]]:
    """The best continuations, best first, and the row of the beam each comes from.

    As many as may be needed: `width` that go on, and every ending that could stand before them.
    """
    plain = check_finite(logits).double().log_softmax(dim=-1)
    seen = None
    if how.filters.repetition != 1:
        texts = [[*row.prompt, *h.ids] for h in beam]
        seen = token_mask(texts, logits.shape[-1], logits.device)
    scores = how.filters(logits.double(), seen).log_softmax(dim=-1)
    scores += torch.tensor([h.score for h in beam], device=logits.device).double()[:, None]
    flat = _best(scores.flatten(), how.width + len(beam) * len(how.stop.ids))
    size, grown_texts = logits.shape[-1], []
    known = (scores.flatten()[flat].tolist(), plain.flatten()[flat].tolist())
    for index, score, logprob in zip(flat.tolist(), *known, strict=True):
        old, token = beam[index // size], index % size
        if token in how.stop.ids:
            grown_texts.append(replace(old, score=score, ended=True))
        else:
            grown = replace(old, score=score, ids=(*old.ids, token))
            grown_texts.append(replace(grown, logprobs=(*old.logprobs, logprob)))
    return grown_texts, [index // size for index in flat.tolist()]


def _best(scores: Float[Tensor, " place"], k: int) -> Int[Tensor, " place"]:
    """Indices of the k highest finite scores, highest first; among equals the lowest index."""
    kept = top_k(scores[None], k)[0]
    flat = torch.isfinite(kept).nonzero()[:, 0]
    return flat[scores[flat].sort(descending=True, stable=True).indices]
