"""The decoding loop: compute logits, choose one id per row, repeat; rows that ended are ignored.

A row's ids are a function of its prompt, its seed and the model: neighbours, their number and their
order change its logits by rounding only (see `draw.py` for what that can do).
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.decode.draw import UniformStream, draw
from attnlab.decode.filters import NO_NUMBERS, Filters, likeliest, repetition_penalty
from attnlab.decode.stepper import Scores, WindowStepper, device_of, stepper_for
from attnlab.decode.text import Decode, continuation, text_before
from attnlab.models.protocol import LanguageModel

Ending = Literal["token", "string", "length"]
OnToken = Callable[[int, int], None]  # a row's number and its next id
AT_ONCE = 16  # steps between two looks at whether every row has ended


@dataclass(frozen=True)
class Generated:
    """The text after a prompt, without the stop token and its probability.

    With a stop string the text ends before it, while `ids` keep the tokens that spell it.
    """

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]  # log p of each id under the model, before any filter
    ended: Ending
    text: str | None = None  # None: no decoder was given

    @property
    def logprob(self) -> float:
        """log p(ids | prompt) under the model."""
        return math.fsum(self.logprobs)


@dataclass(frozen=True)
class Stop:
    """When a text ends: a number of tokens, stop ids, stop strings."""

    tokens: int  # at most so many
    ids: Collection[int] = ()
    strings: Sequence[str] = ()
    decode: Decode | None = None


@dataclass
class Row:
    """One text while it is generated."""

    prompt: Sequence[int]
    seed: Seed
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: Ending | None = None

    def add(self, token: int, logprob: float, stop: Stop) -> bool:
        """Append a token; False if it is the stop token, which is not part of the text."""
        if token in stop.ids:
            self.ended = "token"
            return False
        self.ids.append(token)
        self.logprobs.append(logprob)
        if stop.strings and text_before(self.text(stop) or "", stop.strings) is not None:
            self.ended = "string"
        elif len(self.ids) == stop.tokens:
            self.ended = "length"
        return True

    def text(self, stop: Stop) -> str | None:
        """The decoded text, if a decoder was given."""
        return None if stop.decode is None else continuation(stop.decode, self.prompt, self.ids)

    def done(self, stop: Stop) -> Generated:
        """The finished text."""
        assert self.ended is not None
        text = self.text(stop)
        if self.ended == "string" and text is not None:
            text = text_before(text, stop.strings)
        return Generated(tuple(self.ids), tuple(self.logprobs), self.ended, text)


def pad_prompts(
    prompts: Sequence[Sequence[int]], context: int
) -> tuple[Int[Tensor, "row pos"], Tensor | None]:
    """The last `context` ids of each prompt, left-padded with id 0, and the padding mask."""
    kept = [list(prompt[-context:]) for prompt in prompts]
    width = max(map(len, kept))
    ids = torch.tensor([[0] * (width - len(row)) + row for row in kept])
    empty = torch.tensor([width - len(row) for row in kept])
    return ids, torch.arange(width) < empty[:, None] if bool(empty.any()) else None


def run(
    model: LanguageModel, rows: Sequence[Row], filters: Filters, stop: Stop, on_token: OnToken
) -> None:
    """Generate every row to its end."""
    ids, key_padding_mask = pad_prompts([row.prompt for row in rows], model.context)
    stepper = stepper_for(model, len(rows), ids.shape[1] + stop.tokens - 1)
    chooser = Chooser(filters, rows, model)
    logits = stepper.start(ids, key_padding_mask)
    while True:
        chosen, tokens, logprobs = chooser.choose(logits, [row.ended is not None for row in rows])
        if not _append_tokens(rows, tokens, logprobs, stop, on_token):
            break
        if chooser.likeliest_only and stepper.can_run_ahead(stop.tokens - 1):
            _go_ahead(stepper, chosen, rows, stop, on_token)
            break
        logits = stepper.step(chosen)
    stepper.done()


def _append_tokens(
    rows: Sequence[Row],
    ids: Sequence[int],
    logprobs: Sequence[float],
    stop: Stop,
    on_token: OnToken,
) -> bool:
    """Append an id to every row that has not ended; whether any row is left."""
    for index, row in enumerate(rows):
        if row.ended is None and row.add(ids[index], logprobs[index], stop):
            on_token(index, ids[index])
    return any(row.ended is None for row in rows)


def _go_ahead(
    stepper: WindowStepper, first: Tensor, rows: Sequence[Row], stop: Stop, on_token: OnToken
) -> None:
    """Greedy decoding in chunks: while one chunk is copied here, the next is computed."""
    left, lots = stop.tokens - 1, deque[AsyncCopy]()
    while left or lots:
        while left and len(lots) <= 1:
            count = min(AT_ONCE, left)
            left -= count
            ids, logprobs = stepper.ahead(first, count)
            first = ids[-1]
            lots.append(AsyncCopy(ids, logprobs))
        for ids, logprobs in zip(*lots.popleft().to_lists(), strict=True):
            if not all(map(math.isfinite, logprobs)):
                raise UsageError(NO_NUMBERS)
            if not _append_tokens(rows, ids, logprobs, stop, on_token):
                return


class AsyncCopy:
    """Tensors that are being copied to the host, which does not wait for them."""

    def __init__(self, *tensors: Tensor) -> None:
        self.copies = [t.to("cpu", non_blocking=True) for t in tensors]
        self.arrived = torch.cuda.Event() if tensors[0].is_cuda else None
        if self.arrived is not None:
            self.arrived.record()

    def to_lists(self) -> list[list[Any]]:
        """Wait for the copy and return the values as lists."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return [copy.tolist() for copy in self.copies]


class Chooser:
    """Chooses ids: applies the filters, then takes the likeliest id or draws one."""

    def __init__(self, filters: Filters, rows: Sequence[Row], model: LanguageModel) -> None:
        device = device_of(model)
        self.filters, self.greedy = filters, filters.temperature == 0
        self.likeliest_only = self.greedy and filters.repetition == 1
        self.seen = (
            None
            if filters.repetition == 1
            else token_mask([row.prompt for row in rows], model.vocabulary, device)
        )
        self.uniforms = UniformStream([row.seed for row in rows], model.vocabulary, device)

    def choose(
        self, logits: Scores, ended: list[bool]
    ) -> tuple[Int[Tensor, " row"], list[int], list[float]]:
        """An id for each row, on the device and on the host; its log-probability."""
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        if any(ended):  # whatever they are now, nothing is refused for it
            logits = logits.masked_fill(torch.tensor(ended, device=logits.device)[:, None], 0.0)
        ids = self._ids(logits)
        if self.seen is not None:
            self.seen.scatter_(1, ids[:, None], True)
        surprise = logits.logsumexp(dim=-1) - logits.gather(1, ids[:, None])[:, 0]
        # one transfer a step: what is chosen, log p, and whether the row was numbers at all
        known = torch.stack([ids.double(), -surprise.double(), logits.amax(dim=-1).double()])
        tokens, logprobs, best = known.tolist()
        if not all(map(math.isfinite, best)):
            raise UsageError(NO_NUMBERS)
        return ids, [int(i) for i in tokens], logprobs

    def _ids(self, logits: Scores) -> Int[Tensor, " row"]:
        if not self.greedy:
            return draw(self.filters(logits.double(), self.seen), self.uniforms.next())
        if self.seen is not None:
            logits = repetition_penalty(logits, self.filters.repetition, self.seen)
        return likeliest(logits)


def token_mask(
    texts: Sequence[Sequence[int]], vocabulary: int, device: torch.device
) -> Bool[Tensor, "row vocab"]:
    """A mask that is True at every id that occurs in a row's text."""
    seen = torch.zeros((len(texts), vocabulary), dtype=torch.bool, device=device)
    for row, text in enumerate(texts):
        seen[row, list(text)] = True
    return seen
