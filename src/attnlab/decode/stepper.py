"""Steppers read the prompts, then append one id per row at a time and return the next logits.

    stepper = stepper_for(model, batch=3, length=40)
    logits = stepper.start(ids, key_padding_mask)      # (row, vocab)
    logits = stepper.step(chosen)

A row reads its last `context` tokens and nothing before them. While they fit, keys and values are
cached; from the first token that does not fit, every step reads the last `context` tokens again,
because each of them has moved to another position.
"""

import inspect
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.decode.fast import GPTStepper, fast_stepper, keep_recording
from attnlab.models.cached import distinct
from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel
from attnlab.models.protocol import Ids, LanguageModel, PaddingMask
from attnlab.parts.cached import why_not_cached

Scores = Float[Tensor, "row vocab"]
Chosen = Int[Tensor, " row"]


class Stepper(Protocol):
    """A model that decodes step by step; returned logits are valid until the next call."""

    def start(self, ids: Ids, key_padding_mask: PaddingMask) -> Scores:
        """Read prompts that are left-padded where the mask is True; logits after the last token."""
        ...

    def step(self, ids: Chosen) -> Scores:
        """Append one id to each row; logits after it."""
        ...

    def take(self, rows: Chosen) -> None:
        """Replace row i by the former row rows[i]; the number of rows stays the same."""
        ...


@runtime_checkable
class GreedyStepper(Protocol):
    """A stepper that can decode several greedy steps on the device without the host."""

    def ahead(self, ids: Chosen, count: int) -> tuple[Tensor, Tensor]:
        """(step, row) of what is likeliest after `ids`, and so on, and log p of it."""
        ...


def stepper_for(model: LanguageModel, batch: int, length: int) -> "WindowStepper":
    """The fastest exact stepper for `batch` rows of `length` positions; longer texts work too."""
    length = min(length, model.context)
    return WindowStepper(model, _cached_stepper(model, batch, length), length)


def _cached_stepper(model: LanguageModel, batch: int, length: int) -> Stepper | None:
    """A stepper with a key/value cache; None if the cache is not known to be exact."""
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
    """Whether the model returns a cache whose rows can be reordered."""
    token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    answer = model.library(input_ids=token, use_cache=True)
    return hasattr(getattr(answer, "past_key_values", None), "batch_select_indices")


def device_of(model: Any) -> torch.device:
    """The device on which the model expects its ids."""
    if isinstance(model, torch.nn.Module):
        return next(model.parameters()).device
    return torch.device(getattr(model, "device", "cpu"))


@dataclass
class WindowStepper:
    """Uses `cache` while the rows fit into `room` positions, then reads whole windows.

    Every window is read alone and without padding: slow, but exact for any model.
    """

    model: LanguageModel
    cache: Stepper | None = None
    room: int = 0
    filled: int = field(default=0, init=False)
    _texts: list[list[int]] = field(default_factory=list, init=False)
    _new: list[Chosen] = field(default_factory=list, init=False)  # not yet in the texts

    def start(self, ids: Ids, key_padding_mask: PaddingMask) -> Scores:
        """Read the prompts; logits after the last position."""
        mask = key_padding_mask
        skipped = [0] * len(ids) if mask is None else mask.sum(dim=1).tolist()
        self._texts = [row[skip:] for row, skip in zip(ids.tolist(), skipped, strict=True)]
        self._new, self.filled = [], ids.shape[1]
        if self.cache is None:
            return self._read_windows()
        device = device_of(self.model)
        return self.cache.start(ids.to(device), None if mask is None else mask.to(device))

    def step(self, ids: Chosen) -> Scores:
        """Append one id to each row; logits after it, from the cache while it has room."""
        self._new.append(ids)  # not copied from the GPU before it is needed
        self.filled += 1
        if self.filled > self.room:
            self.cache = None
        return self._read_windows() if self.cache is None else self.cache.step(ids)

    def take(self, rows: Chosen) -> None:
        """Replace row i by the former row rows[i], in the cache as well."""
        texts = self._read_texts()
        self._texts = [list(texts[row]) for row in rows.tolist()]
        if self.cache is not None:
            self.cache.take(rows)

    def _read_texts(self) -> list[list[int]]:
        """The ids of every row so far, without padding."""
        if self._new:
            for text, new in zip(self._texts, torch.stack(self._new, dim=1).tolist(), strict=True):
                text += new
            self._new = []
        return self._texts

    def _read_windows(self) -> Scores:
        """Read the last `context` tokens of every row; logits after them."""
        device, context = device_of(self.model), self.model.context
        rows = (torch.tensor([text[-context:]], device=device) for text in self._read_texts())
        return torch.cat([self.model.logits(row)[:, -1] for row in rows])

    def can_run_ahead(self, count: int) -> bool:
        """Whether the cache can decode `count` more tokens greedily by itself."""
        return isinstance(self.cache, GreedyStepper) and self.filled + count <= self.room

    def ahead(self, ids: Chosen, count: int) -> tuple[Tensor, Tensor]:
        """Append `ids`, then decode `count` greedy tokens; return them with log-probabilities."""
        assert isinstance(self.cache, GreedyStepper)
        self.filled += count
        return self.cache.ahead(ids, count)

    def done(self) -> None:
        """Release the cache and keep its recording: no further step will follow."""
        if self.cache is not None:
            keep_recording(self.cache)
            self.cache = None


@dataclass
class HubStepper:
    """A transformers model with its own cache."""

    model: HubModel
    known: frozenset[str]
    visible: Tensor = field(init=False)
    padded: bool = field(default=False, init=False)
    cache: Any = field(default=None, init=False)

    def start(self, ids: Ids, key_padding_mask: PaddingMask) -> Scores:
        """Read the prompts, equal ones only once; logits after the last position."""
        read, padding, rows = distinct(ids, key_padding_mask)
        self.visible, self.padded, self.cache = (~padding).long(), bool(padding.any()), None
        logits = self._read(read)
        self.take(rows)
        return logits[rows]

    def step(self, ids: Chosen) -> Scores:
        """Append one id to each row; logits after it."""
        self.visible = torch.cat([self.visible, torch.ones_like(ids)[:, None]], dim=1)
        return self._read(ids[:, None])

    def take(self, rows: Chosen) -> None:
        """Replace row i by the former row rows[i], for every i."""
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
