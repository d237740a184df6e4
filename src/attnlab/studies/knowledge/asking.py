"""Greedy answers to many prompts: a GPT keeps what it has read, a Perceiver reads rows together.

A Perceiver has no cache: its latents stand at fixed places, and each further character is read with
the whole row. Rows are padded on the right, where a causal model does not look, so that one forward
serves a whole batch instead of one row.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch

from attnlab.decode.filters import likeliest
from attnlab.decode.generate import generate
from attnlab.decode.strategy import Strategy
from attnlab.models.gpt import GPT
from attnlab.models.perceiver import Perceiver

Model = GPT | Perceiver
Prompt = Sequence[int]


@dataclass(frozen=True)
class Said:
    """What follows a prompt; whether a stop ended it, which is not part of it."""

    ids: tuple[int, ...]
    finished: bool


def said(
    model: Model, prompts: Sequence[Prompt], longest: int, batch: int, stops: Collection[int] = ()
) -> list[Said]:
    """The likeliest characters after each prompt, at most `longest`, in the prompts' order."""
    if not prompts:
        return []
    if isinstance(model, GPT):
        found = generate(
            model, prompts, Strategy("greedy"), max_new_tokens=longest, stop_ids=stops, batch=batch
        )
        return [Said(text.ids, text.ended != "length") for text in found]
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    answers: dict[int, Said] = {}
    for start in range(0, len(order), batch):
        now = order[start : start + batch]
        told = _together(model, [prompts[i] for i in now], longest, frozenset(stops))
        answers |= dict(zip(now, told, strict=True))
    return [answers[i] for i in range(len(prompts))]


def _together(
    model: Perceiver, prompts: Sequence[Prompt], longest: int, stops: frozenset[int]
) -> list[Said]:
    """One forward a character, of the rows that have not ended."""
    texts, ended = [list(prompt) for prompt in prompts], [False] * len(prompts)
    for _ in range(longest):
        open_ = [i for i, over in enumerate(ended) if not over]
        if not open_:
            break
        for i, token in zip(open_, _next(model, [texts[i] for i in open_]), strict=True):
            ended[i] = token in stops
            if not ended[i]:
                texts[i].append(token)
    return [
        Said(tuple(text[len(prompt) :]), over)
        for text, prompt, over in zip(texts, prompts, ended, strict=True)
    ]


@torch.no_grad()
def _next(model: Perceiver, texts: Sequence[Prompt]) -> list[int]:
    """The likeliest id after the last `context` ids of each."""
    kept = [text[-model.context :] for text in texts]
    lengths = torch.tensor([len(text) for text in kept])
    width = int(lengths.max())
    ids = torch.tensor([[*text, *[0] * (width - len(text))] for text in kept])
    # what comes after a row's end need not be hidden, and hiding it would be slower
    logits = model.logits(ids.to(next(model.parameters()).device))
    return likeliest(logits[torch.arange(len(kept)), lengths - 1]).tolist()
