"""Words that fit: a noun to its number, a text to its length."""


def counted(n: int, noun: str) -> str:
    """`1 trial`, `12 trials`, `10,000 trials`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def shorten(text: str, longest: int) -> str:
    """The text, or its beginning with … where it has more characters than `longest`."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
