"""The results of a run as rows: one a trial, its configuration and metrics side by side."""

import csv
import html
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.audit.finding import Finding
from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.core.plural import shorten
from attnlab.lab.trial import Scalar

if TYPE_CHECKING:
    import torch

FIRST = ("id", "seed", "state")
SHOWN_ROWS = 20  # in a notebook
Loader = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Row:
    """A trial that ran: `row["alpha"]` finds a metric first, then a setting of its config."""

    id: str
    seed: int
    state: str
    config: Mapping[str, Any]
    metrics: Mapping[str, Scalar]
    cost: Mapping[str, float] = field(default_factory=dict)
    error: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    load_arrays: Loader = dict
    load_curves: Loader = dict
    load_samples: Callable[[], list[str]] = list
    load_documents: Loader = dict

    def __getitem__(self, key: str) -> Any:
        if key not in self.columns:
            raise UsageError(f"trial {self.id} has no column {key!r}: {suggest(key, self.columns)}")
        return self.columns[key]

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Id, seed and state, then settings, then metrics, by name; the last of a name counts."""
        return {**{name: getattr(self, name) for name in FIRST}, **self.config, **self.metrics}

    def get(self, key: str, default: Any = None) -> Any:
        """row[key], or `default` when the trial has no such column."""
        return self.columns.get(key, default)

    def failure(self, audit: str) -> Finding | None:
        """What the audit found wrong with this trial; None where it passed or did not run."""
        return next((f for f in self.findings if f.name == audit and f.verdict == "fail"), None)

    @property
    def arrays(self) -> Mapping[str, np.ndarray]:
        """The trial's arrays, read from its safetensors file when accessed."""
        return self.load_arrays()

    def tensors(self, prefix: str) -> "dict[str, torch.Tensor]":
        """The arrays whose names begin with the prefix, as tensors named without it."""
        import torch

        return {
            name.removeprefix(prefix): torch.from_numpy(array.copy())
            for name, array in self.arrays.items()
            if name.startswith(prefix)
        }

    @property
    def curves(self) -> Mapping[str, list[float]]:
        """The trial's curves, read from its JSON file when accessed."""
        return self.load_curves()

    @property
    def samples(self) -> list[str]:
        """The texts the trial left to be read."""
        return self.load_samples()

    @property
    def documents(self) -> Mapping[str, str]:
        """The texts the trial left by name: its tokenizer, for one."""
        return self.load_documents()


def flat(rows: "Table", cost: bool = False) -> tuple[list[str], list[list[Any]]]:
    """id, seed, state, then every setting and metric any trial has; what is missing is None."""
    config = sorted({key for row in rows for key in row.config})
    metrics = sorted({key for row in rows for key in row.metrics if key not in config})
    costs = sorted({key for row in rows for key in row.cost}) if cost else []
    columns = [*FIRST, *config, *metrics, *(f"cost_{key}" for key in costs)]
    cells = [
        [
            row.id,
            row.seed,
            row.state,
            *(row.config.get(k) for k in config),
            *(row.metrics.get(k) for k in metrics),
            *(row.cost.get(k) for k in costs),
        ]
        for row in rows
    ]
    return columns, cells


def csv_text(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Comma-separated values; what is missing is empty."""
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([["" if v is None else v for v in row] for row in rows])
    return made.getvalue()


def _cell(value: Any) -> str:
    """A value in few characters."""
    text = f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
    return shorten(text, 40)


@dataclass(frozen=True, repr=False)
class Table:
    """Rows sorted by trial id, with the three verbs figures and claims need."""

    rows: Sequence[Row]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def done(self) -> "Table":
        """Only the trials that ended well."""
        return Table([r for r in self.rows if r.state == "done"])

    def where(self, **values: object) -> "Table":
        """Only the rows whose columns equal these values, one column after the other.

        UsageError for a column that none of the rows left has; a table without rows stays empty.
        """
        kept = self
        for key, value in values.items():
            kept.check_column(key)
            kept = Table([row for row in kept.rows if row.get(key) == value])
        return kept

    def column(self, key: str) -> np.ndarray:
        """One column as floats, NaN for rows without it; UsageError if none has it."""
        self.check_column(key)
        found = [r.get(key) for r in self.rows]
        return np.array([np.nan if v is None else float(v) for v in found])

    def check_column(self, key: str) -> None:
        """UsageError with the nearest name if there are rows and none has this column."""
        if self.rows and not any(key in row.columns for row in self.rows):
            known = {name for row in self.rows for name in row.columns}
            raise UsageError(f"the table has no column {key!r}: {suggest(key, known)}")

    def groups(self, *keys: str) -> dict[tuple[Any, ...], "Table"]:
        """Rows that agree on `keys`, by the agreed values, sorted."""
        found: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            found.setdefault(tuple(row.get(k) for k in keys), []).append(row)
        return {key: Table(found[key]) for key in sorted(found)}

    def to_pandas(self) -> Any:
        """A DataFrame with one row a trial: id, seed, state, settings, metrics; needs pandas."""
        try:
            from pandas import DataFrame  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise UsageError("Table.to_pandas needs pandas: pip install pandas") from None
        columns, rows = flat(self)
        return DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        """How many trials and columns: the rows themselves would fill screens."""
        return f"<Table: {len(self.rows)} trials, {len(flat(self)[0])} columns>"

    def _repr_html_(self) -> str:
        """In a notebook: the first rows, with every column that differs between trials."""
        columns, rows = flat(self)
        varying = [
            i for i in range(len(columns)) if i < len(FIRST) or len({str(r[i]) for r in rows}) > 1
        ]
        head = "".join(f"<th>{html.escape(columns[i])}</th>" for i in varying)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(row[i]))}</td>" for i in varying) + "</tr>"
            for row in rows[:SHOWN_ROWS]
        )
        more = len(rows) - SHOWN_ROWS
        rest = f"<p>and {more} more trials</p>" if more > 0 else ""
        return f"<table><tr>{head}</tr>{body}</table>{rest}"

    @property
    def ids(self) -> tuple[str, ...]:
        """The trials behind this table, so that every number can be traced."""
        return tuple(r.id for r in self.rows)
