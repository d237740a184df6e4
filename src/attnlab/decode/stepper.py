"""What the loop of generation asks of a model: read the prompts, then one more id a row.

    stepper = stepper_for(model, batch=3, length=40)
    logits = stepper.start(ids, key_padding_mask)      # (row, vocab)
    logits = stepper.step(chosen)

A row reads its last `context` tokens and nothing before them. While they fit, what has been read is
kept; from the first token that does not fit, every step reads the last `context` tokens anew, since
each of them has then moved to another place.
"""

import inspect
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.decode.fast import fast_stepper, keep_recording
from attnlab.models.cached import CachedGPT, distinct
from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel
from attnlab.models.protocol import Ids, LanguageModel, PaddingMask
from attnlab.parts.cached import why_not_cached

Scores = Float[Tensor, "row vocab"]
Chosen = Int[Tensor, " row"]


class Stepper(Protocol):
    """A model in the middle of a text; what it gives is valid until it is asked again."""

    def start(self, ids: Ids, key_padding_mask: PaddingMask) -> Scores:
        """Read prompts padded on the left where the mask is True; scores after the last one."""
        ...

    def step(self, ids: Chosen) -> Scores:
        """Scores after one more id a row."""
        ...

    def take(self, rows: Chosen) -> None:
        """Row i becomes what row rows[i] was; as many rows as before."""
        ...


@runtime_checkable
class GreedyStepper(Protocol):
    """A stepper that goes on with the likeliest by itself, without waiting for the host."""

    def ahead(self, ids: Chosen, count: int) -> tuple[Tensor, Tensor]:
        """(step, row) of what is likeliest after `ids`, and so on, and log p of it."""
        ...


def stepper_for(model: LanguageModel, batch: int, length: int) -> "WindowStepper":
    """The fastest exact way through `length` positions of `batch` rows, and on beyond them."""
    length = min(length, model.context)
    return WindowStepper(model, _cached_stepper(model, batch, length), length)


def _cached_stepper(model: LanguageModel, batch: int, length: int) -> Stepper | None:
    """A stepper with a cache; None where a cache is not known to be exact."""
    if (fast := fast_stepper(model, batch, length)) is not None:
        return fast
    if isinstance(model, GPT):
        exact = all(why_not_cached(block.attention) is None for block in model.layers())
        return GPTStepper(model, length) if exact else None
    if isinstance(model, HubModel):
        known = inspect.signature(model.library.forward).parameters
        if "past_key_values" in known and "attention_mask" in known and _gives_cache(model):
            return HubStepper(model, frozenset(known))
    return None


@torch.no_grad()
def _gives_cache(model: HubModel) -> bool:
    """Whether one token leaves a cache whose rows can be chosen."""
    token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    answer = model.library(input_ids=token, use_cache=True)
    return hasattr(getattr(answer, "past_key_values", None), "batch_select_indices")


def device_of(model: Any) -> torch.device:
    """Where a model wants its ids."""
    if isinstance(model, torch.nn.Module):
        return next(model.parameters()).device
    return torch.device(getattr(model, "device", "cpu"))


@dataclass
class UncachedStepper:
    """Every row alone, unpadded, from its first real token: exact for any model."""

    model: LanguageModel
    _texts: list[list[int]] = field(default_factory=list, init=False)
    _new: list[Chosen] = field(default_factory=list, init=False)  # not yet in the texts

    def start(self, ids: Ids, key_padding_mask: PaddingMask) -> Scores:
        """Scores after each whole prompt."""
        self.set_prompts(ids, key_padding_mask)
        return self.read_all()

    def step(self, ids: Chosen) -> Scores:
        """Scores after each whole text, one id longer."""
        self.append(ids)
        return self.read_all()

    def take(self, rows: Chosen) -> None:
        """Row i becomes what row rows[i] was."""
        texts = self.texts()
        self._texts = [list(texts[row]) for row in rows.tolist()]

    def set_prompts(self, ids: Ids, key_padding_mask: PaddingMask) -> None:
        """The real ids of every row."""
        skipped = (
            [0] * len(ids) if key_padding_mask is None else key_padding_mask.sum(dim=1).tolist()
        )
        self._texts = [row[skip:] for row, skip in zip(ids.tolist(), skipped, strict=True)]
        self._new = []

    def append(self, ids: Chosen) -> None:
        """One more id a row; where they are is not asked before it matters (a GPU would wait)."""
        self._new.append(ids)

    def texts(self) -> list[list[int]]:
        """Every row's real ids so far."""
        if self._new:
            for text, new in zip(self._texts, torch.stack(self._new, dim=1).tolist(), strict=True):
                text += new
            self._new = []
        return self._texts

    def read_all(self) -> Scores:
        """Scores after the last `context` tokens of every row."""
        device, context = device_of(self.model), self.model.context
        rows = (torch.tensor([text[-context:]], device=device) for text in self.texts())
        return torch.cat([self.model.logits(row)[:, -1] for row in rows])


@dataclass
class WindowStepper(UncachedStepper):
    """`cache` while the rows fit into `room` positions, whole windows afterwards."""

    cache: Stepper | None
    room: int
    filled: int = field(default=0, init=False)

    def start(self, ids: Ids, key_padding_mask: PaddingMask) -> Scores:
        """Read the prompts; scores after the last position."""
        self.set_prompts(ids, key_padding_mask)
        self.filled = ids.shape[1]
        if self.cache is None:
            return self.read_all()
        device = device_of(self.model)
        return self.cache.start(
            ids.to(device), None if key_padding_mask is None else key_padding_mask.to(device)
        )

    def step(self, ids: Chosen) -> Scores:
        """Scores after one more id a row, from the cache if there is room for it."""
        self.append(ids)
        self.filled += 1
        if self.filled > self.room:
            self.cache = None
        return self.read_all() if self.cache is None else self.cache.step(ids)

    def take(self, rows: Chosen) -> None:
        """Row i becomes what row rows[i] was, in the cache too."""
        super().take(rows)
        if self.cache is not None:
            self.cache.take(rows)

    def can_run_ahead(self, count: int) -> bool:
        """Whether the cache chooses the likeliest itself, and has room for so many."""
        return isinstance(self.cache, GreedyStepper) and self.filled + count <= self.room

    def ahead(self, ids: Chosen, count: int) -> tuple[Tensor, Tensor]:
        """`ids`, then the likeliest each time: what followed `count` times, and log p of it."""
        assert isinstance(self.cache, GreedyStepper)
        self.filled += count
        return self.cache.ahead(ids, count)

    def done(self) -> None:
        """Nothing more will be asked."""
        if self.cache is not None:
            keep_recording(self.cache)
            self.cache = None


@dataclass
class GPTStepper:
    """A GPT of ours with the keys and values of its layers (`models/cached.py`)."""

    model: GPT
    length: int
    cached: CachedGPT = field(init=False)

    def start(self, ids: Ids, key_padding_mask: PaddingMask) -> Scores:
        """Read the prompts; scores after the last position."""
        self.cached = self.model.cached(len(ids), self.length)
        return self.cached.step(ids, key_padding_mask)[:, -1]

    def step(self, ids: Chosen) -> Scores:
        """Scores after one more id a row."""
        return self.cached.step(ids[:, None])[:, -1]

    def take(self, rows: Chosen) -> None:
        """Row i becomes what row rows[i] was."""
        self.cached.take(rows)


@dataclass
class HubStepper:
    """A transformers model with the cache it makes for itself."""

    model: HubModel
    known: frozenset[str]
    visible: Tensor = field(init=False)
    padded: bool = field(default=False, init=False)
    cache: Any = field(default=None, init=False)

    def start(self, ids: Ids, key_padding_mask: PaddingMask) -> Scores:
        """Read the prompts, equal ones once; scores after the last position."""
        read, padding, rows = distinct(ids, key_padding_mask)
        self.visible, self.padded, self.cache = (~padding).long(), bool(padding.any()), None
        logits = self._read(read)
        self.take(rows)
        return logits[rows]

    def step(self, ids: Chosen) -> Scores:
        """Scores after one more id a row."""
        self.visible = torch.cat([self.visible, torch.ones_like(ids)[:, None]], dim=1)
        return self._read(ids[:, None])

    def take(self, rows: Chosen) -> None:
        """Row i becomes what row rows[i] was."""
        self.visible = self.visible[rows]
        self.cache.batch_select_indices(rows)

    @torch.no_grad()
    def _read(self, ids: Ids) -> Scores:
        more: dict[str, Any] = {}
        if self.padded:
            more["attention_mask"] = self.visible
        if "position_ids" in self.known:  # counted from the first real token
            position_ids = (self.visible.cumsum(dim=1) - 1).clamp_min(0)
            more["position_ids"] = position_ids[:, -ids.shape[1] :]
        if "logits_to_keep" in self.known:
            more["logits_to_keep"] = 1
        answer = self.model.library(
            input_ids=ids, past_key_values=self.cache, use_cache=True, **more
        )
        self.cache = answer.past_key_values
        return answer.logits[:, -1]
