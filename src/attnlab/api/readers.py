"""Text to ids and back, as each kind of model expects them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


class Reader(Protocol):
    """Text to ids and back, as the model expects them."""

    def encode(self, text: str) -> Sequence[int]:
        """The ids the model reads, its start marker included."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        ...

    def tokens(self, ids: Sequence[int]) -> Sequence[str]:
        """A label for each id."""
        ...

    @property
    def stop(self) -> int | None:
        """The id that ends a text, if there is one."""
        ...


@dataclass(frozen=True)
class OwnReader:
    """Our tokenizers: a text starts with <START>, unless the model was taught otherwise.

    `before` and `after` are ids around a text, `end` is the id that ends what is generated.
    """

    tokenizer: Any
    before: Sequence[int] | None = None
    after: Sequence[int] = ()
    end: int | None = None

    def encode(self, text: str) -> list[int]:
        """<START> and the text; or the text between what the model was taught to expect."""
        before = [self.tokenizer.start] if self.before is None else self.before
        return [*before, *self.tokenizer.encode(text), *self.after]

    def decode(self, ids: Sequence[int]) -> str:
        """The text."""
        return self.tokenizer.decode(ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Names of the ids."""
        return self.tokenizer.tokens(ids)

    @property
    def stop(self) -> int | None:
        """The id that ends a text."""
        return self.tokenizer.stop if self.end is None else self.end


@dataclass(frozen=True)
class HubReader:
    """A model's own tokenizer: its start marker first, where it has one and wants it."""

    tokenizer: Any

    def encode(self, text: str) -> list[int]:
        """The ids as the library gives them to the model; without a marker where it adds none."""
        return list(self.tokenizer.library(text)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text."""
        return self.tokenizer.decode(ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Names of the ids."""
        return self.tokenizer.tokens(ids)

    @property
    def stop(self) -> int | None:
        """The id that ends a text."""
        return self.tokenizer.stop
