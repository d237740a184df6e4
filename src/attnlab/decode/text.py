"""Decode generated ids: the text after a prompt, up to a stop string, or piece by piece."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Decode = Callable[[Sequence[int]], str]
UNFINISHED = "\ufffd"  # what decoders write for a character of which some bytes are still to come


def continuation(decode: Decode, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """The text of `ids` after `prompt`; decoded together, since a first space may depend on it."""
    whole, read = decode([*prompt, *ids]), decode(prompt)
    return whole[len(read) :] if whole.startswith(read) else decode(ids)


def text_before(text: str, strings: Sequence[str]) -> str | None:
    """The text before the first occurrence of any of the strings; None if there is none."""
    starts = [at for string in strings if (at := text.find(string)) >= 0]
    return text[: min(starts)] if starts else None


@dataclass
class Stream:
    """Turns tokens into pieces of text, as they come; the pieces add up to the whole text."""

    decode: Decode
    prompt: Sequence[int]
    ids: list[int] = field(default_factory=list, init=False)
    emitted: str = field(default="", init=False)

    def piece(self, token: int) -> str:
        """The text that this token adds; nothing while a character is incomplete."""
        self.ids.append(token)
        return self._rest(continuation(self.decode, self.prompt, self.ids).rstrip(UNFINISHED))

    def last(self, text: str) -> str:
        """The part of the finished text that no piece has held yet."""
        return self._rest(text)

    def _rest(self, text: str) -> str:
        if not text.startswith(self.emitted):
            return ""
        rest, self.emitted = text[len(self.emitted) :], text
        return rest
