"""Strategies as a reader calls them: T = 0.5, k = 20, p = 0.7, beam 4, greedy with penalty 1.3."""

from attnlab.studies.decoding.evidence import PEOPLE

SYMBOLS = {"temperature": "T", "top-k": "k", "top-p": "p"}
ADDED = {"temperature": "T", "repetition": "penalty"}
ALONE = {"sample": "sampling", PEOPLE: "people"}


def label(text: str) -> str:
    """The short name of a strategy as the settings write it."""
    name, _, rest = text.partition(":")
    given = [piece.partition("=")[::2] for piece in rest.split(",") if piece]
    if not given:
        return ALONE.get(name, name)
    if len(given) == 1 and name in SYMBOLS:
        return f"{SYMBOLS[name]} = {given[0][1]}"
    if name in ("greedy", "sample"):
        return ", ".join([ALONE.get(name, name), *map(_added, given)])
    return ", ".join([f"{name} {given[0][1]}", *map(_added, given[1:])])


def _added(pair: tuple[str, ...]) -> str:
    return f"{ADDED.get(pair[0], pair[0])} {pair[1]}"
