"""Thousands of trials as groups that agree on their settings: mean, least and most of each number.

A page of 100,000 rows helps nobody; the trials themselves lie beside it, in trials.csv.
"""

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from attnlab.lab.table import Row, Table, csv_text, flat
from attnlab.report.text import number, plain

MANY = 2_000  # trials a page shows one by one
MOST_GROUPS = 500
_CELL = 120  # characters of one cell


def every_trial(table: Table) -> bytes:
    """The file beside the page: every trial, in full, with its cost."""
    return csv_text(*flat(table, cost=True)).encode()


def grouped(
    table: Table, config: Sequence[str], metrics: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Columns, and a line of HTML a group; settings of too many values are left out of the key."""
    keys = _keys(table, config)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in table:
        groups.setdefault(tuple(plain(row.config.get(key), _CELL) for key in keys), []).append(row)
    lines = [_line(key, groups[key], metrics) for key in sorted(groups, key=_order)]
    return [*keys, "trials", "done", *metrics, "seconds"], lines


def _order(key: tuple[str, ...]) -> tuple[tuple[float, str], ...]:
    """Numbers by size, then texts by letter."""
    return tuple((_size(text), text) for text in key)


def _size(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.inf


def _keys(table: Table, config: Sequence[str]) -> list[str]:
    """The settings to group by: those of most values go until few enough groups are left."""
    values = {key: {plain(row.config.get(key), _CELL) for row in table} for key in config}
    keys = list(config)
    while keys and len({tuple(str(r.config.get(k)) for k in keys) for r in table}) > MOST_GROUPS:
        keys.remove(max(keys, key=lambda key: len(values[key])))
    return keys


def _line(key: tuple[str, ...], rows: Sequence[Row], metrics: Sequence[str]) -> str:
    done = sum(row.state == "done" for row in rows)
    cells = [*key, f"{len(rows):,}", f"{done:,}"]
    cells += [_summary([row.metrics.get(name) for row in rows]) for name in metrics]
    cells.append(_summary([row.cost.get("seconds") for row in rows]))
    return str(Markup("<tr>") + Markup("").join(Markup("<td>") + escape(cell) for cell in cells))


def _summary(values: Sequence[Any]) -> str:
    """`0.52 (0.1 to 0.9)` of numbers; a text all share, or how many there are."""
    found = [value for value in values if value is not None]
    if not found:
        return ""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in found):
        mean = math.fsum(found) / len(found)
        least, most = min(found), max(found)
        return number(mean) + (f" ({number(least)} to {number(most)})" if least < most else "")
    different = {plain(value, _CELL) for value in found}
    return different.pop() if len(different) == 1 else f"{len(different):,} different"
