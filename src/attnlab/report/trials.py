"""The trial table of the page: compact rows within a limit of bytes; failures always shown.

Of thousands of trials it has one row per group of the same settings, with mean, minimum and maximum
of each number: a page of 100,000 rows would help nobody. The trials are in trials.csv beside it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from attnlab.lab.table import Row, Table, csv_text, flat
from attnlab.report.text import number, plain
from attnlab.report.view import TrialSet

MANY = 2_000  # trials a page shows one by one
MOST_GROUPS = 500
LINKED_IDS = 300  # a longer list of ids is text only: links cost four times the bytes
LISTED_BYTES = 600_000  # for all lists of ids together
_CELL = 120  # characters of one cell


def trials_view(table: Table, budget: int) -> dict[str, Any]:
    """The rows that fit, the settings they share, and how many rows there are.

    Settings that vary become columns; settings shared by all trials are listed once.
    """
    config, constant = _config_columns(table)
    metrics = sorted({key for row in table for key in row.metrics} - set(config))
    grouped = len(table) > MANY
    if grouped:
        columns, lines = _grouped(table, config, metrics)
    else:
        columns, lines = ["seed", "state", *config, *metrics, "seconds"], []
        for index, row in enumerate(table):
            line = _row_html(index, row, config, metrics)
            budget -= len(line.encode())
            if budget < 0:
                break
            lines.append(line)
    return {
        "columns": columns,
        "constant": [(key, plain(value)) for key, value in constant.items()],
        "rows": Markup("\n".join(lines)),  # safe: every cell was escaped
        "shown": 0 if grouped else len(lines),
        "total": len(table),
        "bad": [row for row in table if row.state != "done"],
        "groups": len(lines) if grouped else 0,  # 0: one line a trial
    }


def every_trial(table: Table) -> bytes:
    """The content of trials.csv: every trial in full, with its cost."""
    return csv_text(*flat(table, cost=True)).encode()


def _config_columns(table: Table) -> tuple[list[str], dict[str, Any]]:
    keys = list(dict.fromkeys(key for row in table for key in row.config))
    if len(table) < 2:
        return keys, {}
    first: dict[str, Any] = {key: table.rows[0].config.get(key) for key in keys}
    same = {k: v for k, v in first.items() if all(r.config.get(k) == v for r in table)}
    return [key for key in keys if key not in same], same


def _row_html(index: int, row: Row, config: Sequence[str], metrics: Sequence[str]) -> str:
    """A table row without end tags: they are optional, and 10,000 rows are 1 MB smaller."""
    values: list[object] = [row.config.get(key) for key in config]
    values += [row.reasons.get(k) if (v := row.metrics.get(k)) is None else v for k in metrics]
    values.append(row.cost.get("seconds"))
    cells = "".join(f"<td>{escape(plain(v, _CELL))}" for v in values)
    head = f'<tr id="t{index}"><th scope="row">{escape(row.id)}<td>{row.seed}'
    return f"{head}<td>{escape(row.state)}{cells}"


def _grouped(
    table: Table, config: Sequence[str], metrics: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Column names and a line of HTML per group; settings with too many values are not used."""
    keys = _keys(table, config)
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in table:
        groups.setdefault(tuple(plain(row.config.get(key), _CELL) for key in keys), []).append(row)
    order = sorted(groups, key=lambda key: [(_size(text), text) for text in key])
    lines = [_line(key, groups[key], metrics) for key in order]
    return [*keys, "trials", "done", *metrics, "seconds"], lines


def _size(text: str) -> float:
    """Sort key: numbers by size, then texts."""
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


def id_lists(sets: Iterable[TrialSet], table: Table, shown: int) -> list[dict[str, Any]]:
    """Every set with its users, and its ids: links if few, text if many, none if too many."""
    where = {row.id: index for index, row in enumerate(table) if index < shown}
    short = _prefix_length([row.id for row in table])
    left = LISTED_BYTES
    made = []
    for one in sets:
        ids = _ids_html(one.ids, where if len(one.ids) <= LINKED_IDS else {}, short)
        left -= len(ids)
        known = {"key": one.key, "users": _users(one.users), "count": len(one.ids)}
        made.append({**known, "ids": ids if left >= 0 else None})
    return made


def _ids_html(ids: Sequence[str], where: Mapping[str, int], short: int) -> Markup:
    parts = [
        f'<a href="#t{where[i]}">{escape(i[:short])}</a>' if i in where else str(escape(i[:short]))
        for i in ids
    ]
    return Markup(" ".join(parts))  # safe: each id was escaped above


def _prefix_length(ids: Sequence[str]) -> int:
    """The shortest prefix length (at least 6) at which all ids still differ."""
    for length in range(6, 16):
        if len({i[:length] for i in ids}) == len(set(ids)):
            return length
    return 64


def _users(users: Sequence[str]) -> str:
    """For example `claims 1, 4; figure 2`."""
    grouped: dict[str, list[str]] = {}
    for user in users:
        kind, _, index = user.rpartition(" ")
        grouped.setdefault(kind, []).append(index)
    words = [f"{k}{'s' if len(v) > 1 else ''} {', '.join(v)}" for k, v in grouped.items()]
    return "; ".join(words)
