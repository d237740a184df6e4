"""grid-edge: did a search choose the smallest or the largest value that it tried?

Runs: every choice of every search beside the values it was chosen from. Number: choices at an end.
Fails with one or more: the best value may lie beyond what was tried, so what rests on the choice
is not settled. A grid of one value is no search, and its choice is not judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.measure.grid_search import end_of

NAME = "grid-edge"
DIRECTIONS = {"smallest": "downwards", "largest": "upwards"}


@dataclass(frozen=True)
class Choice:
    """One choice of a search, for one seed: `setting` is what a user would widen."""

    search: str
    setting: str
    chosen: float
    tried: tuple[float, ...]
    claims: tuple[str, ...] = ()  # those that rest on this choice, by name

    @property
    def end(self) -> str:
        """`smallest` or `largest` where the choice is an end of what was tried; '' inside."""
        return end_of(self.chosen, self.tried)


@audit(NAME, threshold=0)
def grid_edge(choices: Sequence[Choice]) -> Finding:
    """Judge every choice against the values that were tried; claims on one at an end are open."""
    searched = [choice for choice in choices if len(set(choice.tried)) > 1]
    if not searched:
        raise NotApplicable("no search tried more than one value")
    groups: dict[tuple[str, str], list[Choice]] = {}
    for choice in searched:
        groups.setdefault((choice.search, choice.setting), []).append(choice)
    sentences = [_describe(group) for group in groups.values() if any(c.end for c in group)]
    at_end = [choice for choice in searched if choice.end]
    evidence = {
        "choices": [
            [choice.search, choice.setting, choice.chosen, list(choice.tried)]
            for choice in searched
        ]
    }
    if at_end:
        hit = tuple(dict.fromkeys(name for choice in at_end for name in choice.claims))
        return Finding(NAME, "fail", len(at_end), 0, "; ".join(sentences), evidence, hit)
    all_inside = f"all {len(searched)} choices lie" if len(searched) > 1 else "the one choice lies"
    return Finding(NAME, "pass", 0, 0, f"{all_inside} inside the values tried", evidence)


def _describe(group: Sequence[Choice]) -> str:
    """`SGD chose 1, the largest value tried, for 4 of 5 seeds: widen sgd_rates upwards`."""
    parts = []
    for end, direction in DIRECTIONS.items():
        hit = [choice for choice in group if choice.end == end]
        if hit:
            values = " or ".join(f"{value:g}" for value in sorted({c.chosen for c in hit}))
            times = f"in {len(hit)} of {len(group)} searches" if len(group) > 1 else ""
            chose = f"chose {values}, the {end} value tried{', ' if times else ''}{times}"
            parts.append(f"{chose} (widen {group[0].setting} {direction})")
    return f"{group[0].search} {' and '.join(parts)}"
