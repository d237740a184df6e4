"""Words of any script: runs of letters, marks and digits, in lower case.

    "Don't stop, Ζωή: 3½ नेपाली 東京"  ->  don t stop ζωή 3½ नेपाली 東 京

Composed first (NFC), so that é is é however it was typed. Han, hiragana and katakana, written
without spaces, are one word a character; Thai and its kin are not cut between spaces. Joiners and
soft hyphens are no breaks. On ASCII text this is what ROUGE's own rule gives: runs of a-z, 0-9.
"""

import unicodedata
from functools import lru_cache

_ONE_BY_ONE = ("CJK ", "HIRAGANA ", "KATAKANA ")
_ZERO_WIDTH_SPACE = "\u200b"  # a format character that is a break between words


def words(text: str) -> list[str]:
    """The words of a text in order."""
    composed = unicodedata.normalize("NFC", text.lower())
    return "".join(map(_spaced, composed)).split()


def foreign(text: str) -> bool:
    """Does it hold letters or digits outside ASCII, which a rule for a-z and 0-9 drops?"""
    return not text.isascii() and any(
        not c.isascii() and unicodedata.category(c)[0] in "LN" for c in text
    )


@lru_cache(maxsize=1 << 16)
def _spaced(c: str) -> str:
    """The character, alone if it is a word, a space if it is none, nothing if it only joins."""
    kind = unicodedata.category(c)
    if kind[0] in "LMN":
        alone = unicodedata.name(c, "").startswith(_ONE_BY_ONE)
        return f" {c} " if alone else c
    return "" if kind == "Cf" and c != _ZERO_WIDTH_SPACE else " "
