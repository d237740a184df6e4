"""The interface through which other packages use a language model, whoever made it."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

Ids = Int[Tensor, "batch pos"]
PaddingMask = Bool[Tensor, "batch pos"] | None  # True: padding, looked at by nobody
Logits = Float[Tensor, "batch pos vocab"]
Map = Float[Tensor, "batch head query key"]


@runtime_checkable
class LanguageModel(Protocol):
    """Ids in, logits of the next id out; attention weights, if it gives them. No training."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def vocabulary(self) -> int:
        """Ids are 0 … vocabulary − 1; so many logits a position."""
        ...

    @property
    def context(self) -> int:
        """The most positions it can read at once."""
        ...

    def logits(self, ids: Ids, key_padding_mask: PaddingMask = None) -> Logits:
        """Scores of the next id after every position, without gradient."""
        ...

    def attentions(self, ids: Ids) -> list[Map]:
        """The weights of every layer, without gradient; rows over keys sum to 1."""
        ...


@runtime_checkable
class Tokenizer(Protocol):
    """Text to ids and back."""

    def encode(self, text: str) -> list[int]:
        """The text's ids, without markers of start or end."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids."""
        ...
