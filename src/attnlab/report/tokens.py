"""Tokens as people can see them: a space is ␣, a line break ↵, a control character its code.

    Ġthe → ␣the    line feed → ↵    NUL → \\x00    U+202E, which turns text round → \\u202e

Nothing here is HTML: a page escapes what these functions return.
"""

import functools
import itertools
import unicodedata
from collections.abc import Iterable, Sequence

_NAMED = {" ": "␣", "▁": "␣", "\n": "↵", "\t": "⇥"}  # ▁ (U+2581): the space of SentencePiece
_JOINERS = "\u200c\u200d"  # inside a word or an emoji they are part of its form
_EMPTY = "∅"
_CARRIER = "◌"  # stands under a mark that has no letter of its own
_MOST_MARKS = 4  # more of them on one letter climb over the lines above


def shown_tokens(tokens: Sequence[str]) -> tuple[str, ...]:
    """Each token, visible; byte-level pieces (Ġ, Ċ, Ã©) as the text they stand for."""
    return tuple(visible(token) for token in _from_bytes(tokens))


def visible(text: str, *, spaces: bool = True) -> str:
    """Every character leaves a trace and none acts on its neighbours; '' is ∅.

    `spaces=False` for a name or a sentence: its spaces stay spaces.
    """
    kept = {position for position, char in enumerate(text) if char == " " and not spaces}
    kept |= {position for position in range(1, len(text) - 1) if text[position] in _JOINERS}
    made = "".join(c if at in kept else _visible_char(c) for at, c in enumerate(text)) or _EMPTY
    if _is_mark(made[0]):
        made = _CARRIER + made
    return "".join(_few_marks(is_mark, run) for is_mark, run in itertools.groupby(made, _is_mark))


def cut(text: str, longest: int) -> str:
    """The text cut to `longest` characters; a cut text ends in …."""
    return text if len(text) <= longest else text[: longest - 1].rstrip(_JOINERS) + "…"


def _visible_char(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")


def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Me")


def _few_marks(is_mark: bool, run: Iterable[str]) -> str:
    text = "".join(run)
    return text if not is_mark or len(text) <= _MOST_MARKS else text[:_MOST_MARKS] + "…"


def _from_bytes(tokens: Sequence[str]) -> Sequence[str]:
    """Byte-level pieces as text, \\xe2 for part of a character; any other tokens unchanged.

    Ġ and Ċ are letters too (Maltese has Ġ), so all tokens must read as bytes, and the bytes as
    UTF-8 text without control characters.
    """
    byte_of = _byte_alphabet()
    joined = "".join(tokens)
    if not {"Ġ", "Ċ"} & set(joined) or not set(joined) <= set(byte_of):
        return tokens
    pieces = [bytes(byte_of[char] for char in token) for token in tokens]
    try:
        text = b"".join(pieces).decode()
    except UnicodeDecodeError:
        return tokens
    if any(unicodedata.category(char) == "Cc" and char not in "\t\n\r" for char in text):
        return tokens
    return [piece.decode(errors="backslashreplace") for piece in pieces]


@functools.cache
def _byte_alphabet() -> dict[str, int]:
    """The letter of every byte in byte-level BPE: its own if printable, else the next from Ā on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): byte for byte in printable}
    return letters | {chr(256 + position): byte for position, byte in enumerate(others)}
