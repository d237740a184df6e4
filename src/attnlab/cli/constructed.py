"""A construction in print: the sentence, the weights, then every quantity by its name in JSON."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attnlab.cli.console import say, say_table, terminal_width
from attnlab.report.text import counted, number, plain, typeset

if TYPE_CHECKING:
    from attnlab.construct.apply import Attention
    from attnlab.construct.result import Construction, Constructions

MOST_ROWS = 12  # of a table; of the weights the rest is summed up in one line
MOST_ENTRIES = 8  # of a vector
BAR = 20  # characters of a weight of 1
SOLUTIONS = ("query", "key", "matrix", "output")
QUANTITIES = ("kind", "scale", "output", "lead")  # of attention that was applied
ROUNDING = 1e-15
APART = ("why", "weights", "feasible", "certificate", "also")


def say_construction(solved: "Construction", named: Collection[int]) -> None:
    """The sentence, weights by key (the `named` ones first of all), quantities, what proves it."""
    document = solved.as_json()
    _say_sentence(solved.why)
    if weights := document.get("weights"):
        say()
        _say_weights(weights, named)
    kept = {k: v for k, v in document.items() if k not in APART}
    _say_quantities("quantity", {"feasible": _mark(solved.feasible), **kept})
    _say_quantities("certificate", document.get("certificate", {}))
    _say_quantities("also", document.get("also", {}))


def say_attention(found: "Attention") -> None:
    """The sentence, scores and weights by key (of many, those with most weight), the output."""
    _say_sentence(found.why)
    say()
    order = sorted(range(len(found.scores)), key=lambda i: -found.scores[i])
    shown = sorted(order[:MOST_ROWS])
    rows = [[str(i), number(found.scores[i]), _weight(found.weights[i])] for i in shown]
    say_table(["key", "score", "weight"], rows)
    if rest := len(order) - len(shown):
        say(f"{counted(rest, 'more key')}: --json has all")
    document = found.as_json()
    _say_quantities("quantity", {n: document[n] for n in QUANTITIES if n in document})


def say_constructions(solved: "Constructions") -> None:
    """The sentence, then one line a key: can it be selected, with what weight, at what length."""
    _say_sentence(solved.why)
    say()
    rows = [
        [str(i), _mark(row.feasible), _weight(_weight_of(row, i)), number(row.norm)]
        for i, row in enumerate(solved.rows)
    ]
    rest = len(rows) - MOST_ROWS
    say_table(["key", "selected", "weight", "norm"], rows[:MOST_ROWS])
    if rest > 0:
        say(f"{counted(rest, 'more key')}: --json has all")


def _say_sentence(why: str) -> None:
    """Whole words a line on a terminal; one line in a pipe."""
    text = typeset(why[:1].upper() + why[1:] + ("" if why.endswith((".", "…")) else "."))
    width = terminal_width()
    say(text if width is None else textwrap.fill(text, width))


def _mark(reached: bool) -> str:
    return "✓ yes" if reached else "✗ no"


def _weight_of(row: "Construction", i: int) -> float | None:
    return None if row.weights is None else float(row.weights[i])


def _say_weights(weights: Sequence[float], named: Collection[int]) -> None:
    """Keys by their number; of many keys, those asked about and those with most weight."""
    order = sorted(range(len(weights)), key=lambda i: (i not in named, -weights[i]))
    shown = sorted(order if len(order) <= MOST_ROWS else order[: MOST_ROWS - 1])
    rows = [[str(i), _weight(weights[i]), _bar(weights[i])] for i in shown]
    if rest := order[len(shown) :]:
        total = sum(weights[i] for i in rest)
        rows.append([f"{len(rest):,} others", _weight(total), _bar(total)])
    drawn = terminal_width() is not None  # in a pipe bars would be noise
    say_table(["key", "weight", ""][: 2 + drawn], [row[: 2 + drawn] for row in rows])


def _say_quantities(title: str, fields: Mapping[str, Any]) -> None:
    """A table under its title; nothing where there is nothing."""
    if rows := _rows("", fields):
        say()
        say_table([title, ""], rows)


def _weight(weight: float | None) -> str:
    """Four decimals, or what is left of a weight too small for them."""
    return number(weight) if weight is None or 0 < weight < 5e-5 else f"{weight:.4f}"


def _bar(weight: float) -> str:
    return "█" * round(BAR * weight)


def _rows(name: str, value: Any) -> list[list[str]]:
    """One table row per number, vector, line of a matrix, and field of an object."""
    if isinstance(value, Mapping):
        fields = [(f"{name} {key}".strip(), item) for key, item in value.items()]
        return [row for field, item in fields for row in _rows(field, item)]
    title = name.replace("_", " ")
    if not isinstance(value, list):
        return [[title, typeset(plain(value))]]
    if not value or not isinstance(value[0], list | Mapping):
        return [[title, _vector(value, name in SOLUTIONS)]]
    lines = [
        _vector(each, name in SOLUTIONS) if isinstance(each, list) else plain(each)
        for each in value[:MOST_ENTRIES]
    ] + ["…"] * (len(value) > MOST_ENTRIES)
    return [[title if i == 0 else "", line] for i, line in enumerate(lines)]


def _vector(values: list[Any], solved: bool) -> str:
    """(1, 0.5, …): the first entries; in a solution what is rounding beside the largest is 0."""
    if solved:
        least = ROUNDING * max(map(abs, values), default=0.0)
        values = [0.0 if abs(value) < least else value for value in values]
    rest = ", …" if len(values) > MOST_ENTRIES else ""
    return f"({', '.join(plain(value) for value in values[:MOST_ENTRIES])}{rest})"
