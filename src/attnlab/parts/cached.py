"""Decoding token by token: the keys and values of an attention are kept, the rest is its own.

cached = CachedAttention.from_attention(attention, batch=2, length=128)
cached.step(x[:, :5]);  cached.step(x[:, 5:6])      # rows of attention(x), piece by piece
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.parts.attention import Attention
from attnlab.parts.part import Places


def why_not_cached(attention: Attention) -> str | None:
    """Why an earlier position's output could change when a token comes; None when it cannot."""
    return attention.leaks or attention.merge.why_not_cached


@dataclass
class CachedAttention:
    """What has been read so far: keys, values, places and which of them are hidden."""

    attention: Attention
    batch: int
    length: int
    filled: int = 0
    _kept: dict[str, Tensor] = field(default_factory=dict)

    @staticmethod
    def from_attention(attention: Attention, batch: int, length: int) -> "CachedAttention":
        """Room for `length` tokens of `batch` rows; refused where a step could not be exact."""
        if reason := why_not_cached(attention):
            raise UsageError(f"this attention cannot be decoded token by token: {reason}")
        return CachedAttention(attention, batch, length)

    def step(
        self,
        x: Float[Tensor, "batch new d_model"],
        places: Int[Tensor, "#batch new"] | None = None,
        hidden: Bool[Tensor, "batch new"] | None = None,
    ) -> Float[Tensor, "batch new d_model"]:
        """The attention's output at the new positions; no gradient is kept."""
        rows, new = x.shape[:2]
        if rows != self.batch or self.filled + new > self.length:
            room = f"{self.batch} rows of {self.length} tokens"
            raise UsageError(f"the cache has room for {room}, got {rows} of {self.filled + new}")
        if places is None:
            places = torch.arange(self.filled, self.filled + new, device=x.device)[None]
        if hidden is None:
            hidden = x.new_zeros((rows, new), dtype=torch.bool)
        with torch.no_grad():
            q, k, v = self.attention.project(x, x)
            keys, values = self._append("keys", k, 2), self._append("values", v, 2)
            seen = self._append("places", places.expand(rows, new), 1)
            unseen = self._append("hidden", hidden, 1)
            self.filled += new
            return self.attention.out(q, keys, values, Places(places, seen), unseen)

    def _append(self, name: str, new: Tensor, axis: int) -> Tensor:
        """Everything kept under `name`, the new at its end; room is made at the first call."""
        if name not in self._kept:
            shape = list(new.shape)
            shape[axis] = self.length
            self._kept[name] = new.new_empty(shape)
        end = self.filled + new.shape[axis]
        self._kept[name].narrow(axis, self.filled, new.shape[axis]).copy_(new)
        return self._kept[name].narrow(axis, 0, end)

    def take(self, rows: Int[Tensor, " row"]) -> None:
        """Keep these rows, in this order (beams that survive)."""
        self._kept = {name: kept[rows] for name, kept in self._kept.items()}
        self.batch = len(rows)
