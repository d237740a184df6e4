"""Read a text for a model: tokenizers of our own models and of a hub, with one interface."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnlab.core.plural import counted

SHOWN = 8  # unknown characters in a remark


@dataclass(frozen=True)
class Reader:
    """One of our own tokenizers: a text starts with <START> unless `before` is given.

    `before` and `after` are ids around a text; `end` is the id that ends a generated text.
    """

    tokenizer: Any
    before: Sequence[int] | None = None
    after: Sequence[int] = ()
    end: int | None = None

    def encode(self, text: str) -> list[int]:
        """The ids the model reads: those of the text between `before` (or <START>) and `after`."""
        before = [self.tokenizer.start] if self.before is None else self.before
        return [*before, *self.tokenizer.encode(text), *self.after]

    def unknown(self, text: str) -> list[str]:
        """The characters or words of the text that are outside the vocabulary."""
        return self.tokenizer.unknown_pieces(text)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        return self.tokenizer.decode(ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """A label for each id."""
        return self.tokenizer.tokens(ids)

    @property
    def stop(self) -> int | None:
        """The id that ends a text, if there is one."""
        return self.tokenizer.stop if self.end is None else self.end


class HubReader(Reader):
    """The tokenizer of a Hugging Face model; adds a start token if that tokenizer does."""

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


def describe_unknown(unknown: Sequence[str], name: str) -> str:
    """A remark on the characters or words of a text that a model does not know."""
    what = "character" if all(len(piece) == 1 for piece in unknown) else "word"
    are = "is" if len(unknown) == 1 else "are"
    distinct = list(dict.fromkeys(unknown))
    shown = ", ".join(map(repr, distinct[:SHOWN])) + (", …" if len(distinct) > SHOWN else "")
    return (
        f"{counted(len(unknown), what)} of the text {are} not in the vocabulary of {name}: {shown}"
    )
