"""Ids as text: what follows a prompt, where it ends, and pieces of it as they come."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Decode = Callable[[Sequence[int]], str]
UNFINISHED = "\ufffd"  # what decoders write for a character of which some bytes are still to come


def continuation(decode: Decode, prompt: Sequence[int], ids: Sequence[int]) -> str:
    """decode(prompt, ids) without decode(prompt): a first space, say, depends on what is before."""
    whole, read = decode([*prompt, *ids]), decode(prompt)
    return whole[len(read) :] if whole.startswith(read) else decode(ids)


def text_before(text: str, strings: Sequence[str]) -> str | None:
    """The text before the first of the strings in it; None when none is."""
    starts = [at for string in strings if (at := text.find(string)) >= 0]
    return text[: min(starts)] if starts else None


@dataclass
class Stream:
    """Tokens in, pieces of text out; the pieces together are the text."""

    decode: Decode
    prompt: Sequence[int]
    ids: list[int] = field(default_factory=list, init=False)
    emitted: str = field(default="", init=False)

    def piece(self, token: int) -> str:
        """What this token adds; nothing while a character is unfinished."""
        self.ids.append(token)
        return self._rest(continuation(self.decode, self.prompt, self.ids).rstrip(UNFINISHED))

    def last(self, text: str) -> str:
        """What the finished text has beyond the pieces."""
        return self._rest(text)

    def _rest(self, text: str) -> str:
        if not text.startswith(self.emitted):
            return ""
        rest, self.emitted = text[len(self.emitted) :], text
        return rest
