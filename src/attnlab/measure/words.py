"""Split a text in any script into lower-case words: runs of letters, marks and digits.

    "Don't stop, Ζωή: 3½ नेपाली 東京"  ->  don t stop ζωή 3½ नेपाली 東 京

The text is normalised (NFC) first, so that é is the same however it was typed. Each character of
Han, hiragana and katakana is a word, because they are written without spaces; Thai and similar
scripts are split at spaces only. Joiners and soft hyphens do not split. On ASCII text the result is
that of ROUGE's own rule: runs of a-z and 0-9.
"""

import unicodedata
from functools import lru_cache

_ONE_BY_ONE = ("CJK ", "HIRAGANA ", "KATAKANA ")
_ZERO_WIDTH_SPACE = "\u200b"  # a format character that separates words


def words(text: str) -> list[str]:
    """The words of a text in order."""
    composed = unicodedata.normalize("NFC", text.lower())
    return "".join(map(_spaced, composed)).split()


def has_non_ascii_letters(text: str) -> bool:
    """Whether the text has letters or digits outside ASCII, which ROUGE's own rule drops."""
    return not text.isascii() and any(
        not c.isascii() and unicodedata.category(c)[0] in "LN" for c in text
    )


@lru_cache(maxsize=1 << 16)
def _spaced(c: str) -> str:
    """The character, with spaces around it if it is a word; a space for a separator."""
    kind = unicodedata.category(c)
    if kind[0] in "LMN":
        alone = unicodedata.name(c, "").startswith(_ONE_BY_ONE)
        return f" {c} " if alone else c
    return "" if kind == "Cf" and c != _ZERO_WIDTH_SPACE else " "
