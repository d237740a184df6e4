"""Numbers with their nouns."""


def counted(n: int, noun: str) -> str:
    """`1 trial`, `12 trials`, `10,000 trials`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
