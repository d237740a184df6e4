"""The trial table of the page: compact rows within a limit of bytes; failures always shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from attnlab.lab.table import Row, Table
from attnlab.report.groups import MANY, grouped
from attnlab.report.text import plain
from attnlab.report.view import TrialSet

LINKED_IDS = 300  # a longer list of ids is text only: links cost four times the bytes
LISTED_BYTES = 600_000  # for all lists of ids together
_CELL = 120  # characters of one cell


@dataclass(frozen=True)
class TrialsView:
    """The rows that fit, the settings they share, and how many rows there are."""

    columns: list[str]
    constant: list[tuple[str, str]]
    rows: Markup
    shown: int
    total: int
    bad: list[Row]
    groups: int  # of more trials than a page holds; 0: one line a trial


def trials_view(table: Table, budget: int) -> TrialsView:
    """Settings that vary become columns; settings shared by all trials are listed once."""
    config, constant = _config_columns(table)
    metrics = sorted({key for row in table for key in row.metrics} - set(config))
    if len(table) > MANY:
        columns, lines = grouped(table, config, metrics)
        return _view(table, columns, constant, lines, groups=len(lines))
    lines = []
    used = 0
    for index, row in enumerate(table):
        line = _row_html(index, row, config, metrics)
        used += len(line.encode())
        if used > budget:
            break
        lines.append(line)
    return _view(table, ["seed", "state", *config, *metrics, "seconds"], constant, lines)


def _view(
    table: Table,
    columns: list[str],
    constant: Mapping[str, Any],
    lines: list[str],
    groups: int = 0,
) -> TrialsView:
    return TrialsView(
        columns=columns,
        constant=[(key, plain(value)) for key, value in constant.items()],
        rows=Markup("\n".join(lines)),  # safe: every cell was escaped
        shown=0 if groups else len(lines),
        total=len(table),
        bad=[row for row in table if row.state != "done"],
        groups=groups,
    )


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
    values += [_metric(row, key) for key in metrics]
    values.append(row.cost.get("seconds"))
    cells = "".join(f"<td>{escape(plain(v, _CELL))}" for v in values)
    head = f'<tr id="t{index}"><th scope="row">{escape(row.id)}<td>{row.seed}'
    return f"{head}<td>{escape(row.state)}{cells}"


def _metric(row: Row, key: str) -> object:
    value = row.metrics.get(key)
    return row.reasons.get(key) if value is None else value


@dataclass(frozen=True)
class IdList:
    """A set of trials as the page lists it: its claims and figures, size, and ids if they fit."""

    key: str
    users: str
    count: int
    ids: Markup | None


def id_lists(sets: Sequence[TrialSet], table: Table, shown: int) -> list[IdList]:
    """Every set with its ids: as links if few, as text if many, only their number if too many."""
    where = {row.id: index for index, row in enumerate(table) if index < shown}
    short = _prefix_length([row.id for row in table])
    left = LISTED_BYTES
    made: list[IdList] = []
    for one in sets:
        ids = _ids_html(one.ids, where if len(one.ids) <= LINKED_IDS else {}, short)
        left -= len(ids)
        made.append(IdList(one.key, _users(one.users), len(one.ids), ids if left >= 0 else None))
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
