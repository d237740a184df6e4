"""Decoding token by token: the keys and values of an attention are kept, the rest is its own.

cached = CachedAttention(attention, TextSoFar(batch=2, length=128))
cached.step(x[:, :5]);  cached.step(x[:, 5:6])      # rows of attention(x), piece by piece
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.parts.attention import Attention
from attnlab.parts.part import Padding, PositionIds

NewRows = Float[Tensor, "batch new d_model"]
NewIds = Int[Tensor, "#batch new"]
NewPadding = Bool[Tensor, "batch new"] | None
RowNumbers = Int[Tensor, " row"]


def why_not_cached(attention: Attention) -> str | None:
    """Why an earlier position's output could change when a token comes; None when it cannot."""
    return attention.leaks or attention.merge.why_not_cached


@dataclass
class Buffer:
    """A tensor that grows along an axis; its memory is allocated with the first piece."""

    axis: int
    length: int
    filled: int = 0
    data: Tensor | None = None

    def append(self, new: Tensor) -> Tensor:
        """Everything so far, the new at its end."""
        if self.data is None:
            shape = list(new.shape)
            shape[self.axis] = self.length
            self.data = new.new_empty(shape)
        count = new.shape[self.axis]
        self.data.narrow(self.axis, self.filled, count).copy_(new)
        self.filled += count
        return self.data.narrow(self.axis, 0, self.filled)

    def take(self, rows: RowNumbers) -> None:
        """Keep these rows of the batch, in this order."""
        if self.data is not None:
            self.data = self.data[rows]


class Read(NamedTuple):
    """Positions of the new tokens, and of them among all that was read; which of all is padding."""

    new: PositionIds
    among_all: PositionIds
    padding: Padding


class TextSoFar:
    """Positions and padding of what was read; all layers of a model share it."""

    def __init__(self, batch: int, length: int) -> None:
        self.batch, self.length, self.padded = batch, length, False
        self._positions, self._padding = Buffer(1, length), Buffer(1, length)

    @property
    def filled(self) -> int:
        """How many tokens of each row were read."""
        return self._positions.filled

    def check_room(self, rows: int, new: int) -> None:
        """Refuse another number of rows, or more tokens than there is room for."""
        if rows != self.batch or self.filled + new > self.length:
            room = f"{self.batch} rows of {self.length} tokens"
            raise UsageError(f"the cache has room for {room}, got {rows} of {self.filled + new}")

    def append(self, ids: NewIds, key_padding_mask: NewPadding) -> Read:
        """Add tokens at these positions."""
        rows, new = self.batch, ids.shape[1]
        mask = key_padding_mask
        self.padded = self.padded or mask is not None
        everything = self._positions.append(ids.expand(rows, new))
        empty = ids.new_zeros((rows, new), dtype=torch.bool)
        padding = self._padding.append(empty if mask is None else mask)
        among_all = PositionIds(ids, everything, newest=new == 1 and not self.padded)
        return Read(PositionIds(ids, ids), among_all, padding if self.padded else None)

    def take(self, rows: RowNumbers) -> None:
        """Keep these rows, in this order."""
        self._positions.take(rows)
        self._padding.take(rows)
        self.batch = len(rows)


class CachedAttention:
    """An attention and the keys and values of what it has read; keys know their positions."""

    def __init__(self, attention: Attention, text: TextSoFar) -> None:
        if reason := why_not_cached(attention):
            raise UsageError(f"this attention cannot be decoded token by token: {reason}")
        self.attention, self.text = attention, text
        self.keys, self.values = Buffer(2, text.length), Buffer(2, text.length)

    def step(
        self, x: NewRows, position_ids: NewIds | None = None, key_padding_mask: NewPadding = None
    ) -> NewRows:
        """The attention's output at the new positions; no gradient is kept."""
        rows, new = x.shape[:2]
        self.text.check_room(rows, new)
        if position_ids is None:
            first = self.text.filled
            position_ids = torch.arange(first, first + new, device=x.device)[None]
        return self.read(x, self.text.append(position_ids, key_padding_mask))

    @torch.no_grad()
    def read(self, x: NewRows, read: Read) -> NewRows:
        """The same for tokens that the shared text knows already."""
        q, k, v, _ = self.attention.qkv(x, x, read.new)
        keys, values = self.keys.append(k), self.values.append(v)
        return self.attention.out(q, keys, values, read.among_all, read.padding)

    def take(self, rows: RowNumbers) -> None:
        """Keep the keys and values of these rows, in this order; the text may be shared."""
        self.keys.take(rows)
        self.values.take(rows)
