"""Thousands of trials as groups with the same settings: mean, minimum and maximum of each number.

A page of 100,000 rows would help nobody; the trials themselves are in trials.csv beside the page.
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
    """The content of trials.csv: every trial in full, with its cost."""
    return csv_text(*flat(table, cost=True)).encode()


def grouped(
    table: Table, config: Sequence[str], metrics: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Column names and a line of HTML per group; settings with too many values are not used."""
    keys = _keys(table, config)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in table:
        groups.setdefault(tuple(plain(row.config.get(key), _CELL) for key in keys), []).append(row)
    lines = [_line(key, groups[key], metrics) for key in sorted(groups, key=_order)]
    return [*keys, "trials", "done", *metrics, "seconds"], lines


def _order(key: tuple[str, ...]) -> tuple[tuple[float, str], ...]:
    """Sort key: numbers by size, then texts alphabetically."""
    return tuple((_size(text), text) for text in key)


def _size(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.inf


def _keys(table: Table, config: Sequence[str]) -> list[str]:
    """The settings to group by: those with the most values are dropped until groups are few."""
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
    """For numbers `0.52 (0.1 to 0.9)`; for texts the common one or how many differ."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in known):
        mean = math.fsum(known) / len(known)
        least, most = min(known), max(known)
        return number(mean) + (f" ({number(least)} to {number(most)})" if least < most else "")
    different = {plain(value, _CELL) for value in known}
    return different.pop() if len(different) == 1 else f"{len(different):,} different"
