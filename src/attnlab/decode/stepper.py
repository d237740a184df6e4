"""What the loop of generation asks of a model: read the prompts, then one more id a row.

    stepper = stepper_for(model, batch=3, length=40)
    logits = stepper.start(ids, hidden);   logits = stepper.step(chosen)      # both (row, vocab)

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

from attnlab.decode.fast import fast_stepper, give_back
from attnlab.models.cached import CachedGPT, distinct
from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel
from attnlab.models.protocol import Ids, LanguageModel, PaddingMask
from attnlab.parts.cached import why_not_cached

Scores = Float[Tensor, "row vocab"]
Chosen = Int[Tensor, " row"]


class Stepper(Protocol):
    """A model in the middle of a text; what it gives is valid until it is asked again."""

    def start(self, ids: Ids, hidden: PaddingMask) -> Scores:
        """Read the prompts, padded on the left where `hidden`; scores after the last position."""
        ...

    def step(self, ids: Chosen) -> Scores:
        """Scores after one more id a row."""
        ...

    def take(self, rows: Chosen) -> None:
        """Row i becomes what row rows[i] was; as many rows as before."""
        ...


@runtime_checkable
class Ahead(Protocol):
    """A stepper that goes on with the likeliest by itself, without waiting for the host."""

    def ahead(self, ids: Chosen, count: int) -> tuple[Tensor, Tensor]:
        """(step, row) of what is likeliest after `ids`, and so on, and log p of it."""
        ...


def stepper_for(model: LanguageModel, batch: int, length: int) -> "Sliding":
    """The fastest exact way through `length` positions of `batch` rows, and on beyond them."""
    length = min(length, model.context)
    return Sliding(model, _kept(model, batch, length), length)


def _kept(model: LanguageModel, batch: int, length: int) -> Stepper | None:
    """A stepper that keeps what it has read; None where that is not known to be exact."""
    if (fast := fast_stepper(model, batch, length)) is not None:
        return fast
    if isinstance(model, GPT):
        exact = all(why_not_cached(block.attention) is None for block in model.layers())
        return OwnCache(model, length) if exact else None
    if isinstance(model, HubModel):
        known = inspect.signature(model.library.forward).parameters
        if "past_key_values" in known and "attention_mask" in known and _gives_cache(model):
            return HubCache(model, frozenset(known))
    return None


@torch.no_grad()
def _gives_cache(model: HubModel) -> bool:
    """Whether one token leaves a cache whose rows can be chosen."""
    token = torch.zeros((1, 1), dtype=torch.long, device=model.device)
    found = model.library(input_ids=token, use_cache=True)
    return hasattr(getattr(found, "past_key_values", None), "batch_select_indices")


def device_of(model: Any) -> torch.device:
    """Where a model wants its ids."""
    if isinstance(model, torch.nn.Module):
        return next(model.parameters()).device
    return torch.device(getattr(model, "device", "cpu"))


@dataclass
class Whole:
    """Every row alone, unpadded, from its first visible token: exact for any model."""

    model: LanguageModel
    _texts: list[list[int]] = field(default_factory=list, init=False)
    _new: list[Chosen] = field(default_factory=list, init=False)  # not yet in the texts

    def start(self, ids: Ids, hidden: PaddingMask) -> Scores:
        """The whole prompts."""
        self.note_prompts(ids, hidden)
        return self.read()

    def step(self, ids: Chosen) -> Scores:
        """The whole texts, one id longer."""
        self.note(ids)
        return self.read()

    def take(self, rows: Chosen) -> None:
        """Row i becomes what row rows[i] was."""
        texts = self.texts()
        self._texts = [list(texts[row]) for row in rows.tolist()]

    def note_prompts(self, ids: Ids, hidden: PaddingMask) -> None:
        """The visible ids of every row."""
        skipped = [0] * len(ids) if hidden is None else hidden.sum(dim=1).tolist()
        self._texts = [row[skip:] for row, skip in zip(ids.tolist(), skipped, strict=True)]
        self._new = []

    def note(self, ids: Chosen) -> None:
        """One more id a row; where they are is not asked before it matters (a GPU would wait)."""
        self._new.append(ids)

    def texts(self) -> list[list[int]]:
        """Every row's visible ids so far."""
        if self._new:
            for text, new in zip(self._texts, torch.stack(self._new, dim=1).tolist(), strict=True):
                text += new
            self._new = []
        return self._texts

    def read(self) -> Scores:
        """Scores after the last `context` tokens of every row."""
        device, context = device_of(self.model), self.model.context
        rows = (torch.tensor([text[-context:]], device=device) for text in self.texts())
        return torch.cat([self.model.logits(row)[:, -1] for row in rows])


@dataclass
class Sliding(Whole):
    """`kept` while the rows fit into `room` positions, whole windows afterwards."""

    kept: Stepper | None
    room: int
    filled: int = field(default=0, init=False)

    def start(self, ids: Ids, hidden: PaddingMask) -> Scores:
        """The prompts."""
        self.note_prompts(ids, hidden)
        self.filled = ids.shape[1]
        if self.kept is None:
            return self.read()
        device = device_of(self.model)
        return self.kept.start(ids.to(device), None if hidden is None else hidden.to(device))

    def step(self, ids: Chosen) -> Scores:
        """One id more, from what is kept if there is room for it."""
        self.note(ids)
        self.filled += 1
        if self.filled > self.room:
            self.kept = None
        return self.read() if self.kept is None else self.kept.step(ids)

    def take(self, rows: Chosen) -> None:
        """Row i becomes what row rows[i] was, in what is kept too."""
        super().take(rows)
        if self.kept is not None:
            self.kept.take(rows)

    def can_run_ahead(self, count: int) -> bool:
        """Whether what is kept chooses the likeliest itself, and has room for so many."""
        return isinstance(self.kept, Ahead) and self.filled + count <= self.room

    def ahead(self, ids: Chosen, count: int) -> tuple[Tensor, Tensor]:
        """`ids`, then the likeliest each time: what followed `count` times, and log p of it."""
        assert isinstance(self.kept, Ahead)
        self.filled += count
        return self.kept.ahead(ids, count)

    def done(self) -> None:
        """Nothing more will be asked."""
        if self.kept is not None:
            give_back(self.kept)
            self.kept = None


@dataclass
class OwnCache:
    """A GPT of ours with the keys and values of its layers (`models/cached.py`)."""

    model: GPT
    length: int
    cached: CachedGPT = field(init=False)

    def start(self, ids: Ids, hidden: PaddingMask) -> Scores:
        """The prompts."""
        self.cached = self.model.cached(len(ids), self.length)
        return self.cached.step(ids, hidden)[:, -1]

    def step(self, ids: Chosen) -> Scores:
        """One id more."""
        return self.cached.step(ids[:, None])[:, -1]

    def take(self, rows: Chosen) -> None:
        """Row i becomes what row rows[i] was."""
        self.cached.take(rows)


@dataclass
class HubCache:
    """A transformers model with the cache it makes for itself."""

    model: HubModel
    known: frozenset[str]
    visible: Tensor = field(init=False)
    padded: bool = field(default=False, init=False)
    cache: Any = field(default=None, init=False)

    def start(self, ids: Ids, hidden: PaddingMask) -> Scores:
        """The prompts; equal ones are read once."""
        read, unseen, rows = distinct(ids, hidden)
        self.visible, self.padded, self.cache = (~unseen).long(), bool(unseen.any()), None
        logits = self._read(read)
        self.take(rows)
        return logits[rows]

    def step(self, ids: Chosen) -> Scores:
        """One id more."""
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
        if "position_ids" in self.known:  # counted from the first visible token
            places = (self.visible.cumsum(dim=1) - 1).clamp_min(0)
            more["position_ids"] = places[:, -ids.shape[1] :]
        if "logits_to_keep" in self.known:
            more["logits_to_keep"] = 1
        found = self.model.library(
            input_ids=ids, past_key_values=self.cache, use_cache=True, **more
        )
        self.cache = found.past_key_values
        return found.logits[:, -1]
