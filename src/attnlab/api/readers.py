"""Tokenizers with one interface: for our own models and for models of a hub."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from attnlab.core.plural import counted

SHOWN = 8  # unknown characters in a remark


class Reader(Protocol):
    """Encodes a text as the model expects it, start token included, and decodes ids."""

    def encode(self, text: str) -> Sequence[int]:
        """The ids the model reads, its start token included."""
        ...

    def unknown(self, text: str) -> Sequence[str]:
        """The characters or words of the text that are outside the vocabulary."""
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
    """One of our own tokenizers: a text starts with <START> unless `before` is given.

    `before` and `after` are ids around a text; `end` is the id that ends a generated text.
    """

    tokenizer: Any
    before: Sequence[int] | None = None
    after: Sequence[int] = ()
    end: int | None = None

    def encode(self, text: str) -> list[int]:
        """The ids of the text between those of `before` (or <START>) and `after`."""
        before = [self.tokenizer.start] if self.before is None else self.before
        return [*before, *self.tokenizer.encode(text), *self.after]

    def unknown(self, text: str) -> list[str]:
        """What is read as <UNK>."""
        return self.tokenizer.unknown_pieces(text)

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
    """The tokenizer of a Hugging Face model; adds a start token if that tokenizer does."""

    tokenizer: Any

    def encode(self, text: str) -> list[int]:
        """The ids as transformers' tokenizer gives them to the model."""
        return list(self.tokenizer.library(text)["input_ids"])

    def unknown(self, text: str) -> list[str]:
        """What is read as the unknown token; nothing where that token also ends a text (GPT-2)."""
        library = self.tokenizer.library
        unknown = library.unk_token_id
        if unknown in (None, library.eos_token_id, library.bos_token_id):
            return []
        return [library.unk_token] * list(library(text)["input_ids"]).count(unknown)

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


def describe_unknown(unknown: Sequence[str], name: str) -> str:
    """A remark on the characters or words of a text that a model does not know."""
    what = "character" if all(len(piece) == 1 for piece in unknown) else "word"
    are = "is" if len(unknown) == 1 else "are"
    distinct = list(dict.fromkeys(unknown))
    shown = ", ".join(map(repr, distinct[:SHOWN])) + (", …" if len(distinct) > SHOWN else "")
    return (
        f"{counted(len(unknown), what)} of the text {are} not in the vocabulary of {name}: {shown}"
    )
