"""A construction: the query (or key) that was asked for, or the proof that there is none.

Fields that do not apply are None and are left out of the JSON; a number that does not exist there
(no finite value) is null, and "reason" beside it says so.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SHOWN = 12  # entries of a vector a notebook's table prints


@dataclass(frozen=True, kw_only=True, eq=False)
class Construction:
    """What was found (`feasible`, `why` in one sentence), and what proves it.

    query, key    the solution; where it is impossible, the nearest that can be done
    weights       attention of that query (and key); output = weights @ values, if values are given
    attained      False where the best value is only approached as the query grows without end
    margin        least lead of the wanted scores over all others, in score units
    norm          ||query||
    certificate   what proves the answer: plain values, checkable without this package
    kl, residual  nats; how far the conditions of optimality, or the equations, are from exact
    also          what is reported beside it
    """

    feasible: bool
    why: str
    query: Array | None = None
    key: Array | None = None
    weights: Array | None = None
    output: Array | None = None
    attained: bool | None = None
    margin: float | None = None
    norm: float | None = None
    certificate: Mapping[str, Any] | None = None
    kl: float | None = None
    residual: float | None = None
    also: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain lists and numbers: the fields that apply, in the order of the command's JSON."""
        names = (
            "query",
            "key",
            "weights",
            "output",
            "feasible",
            "attained",
            "margin",
            "norm",
            "certificate",
            "kl",
            "residual",
            "why",
        )
        found = {name: getattr(self, name) for name in names}
        given = {name: value for name, value in found.items() if value is not None}
        return plain({**given, **({"also": self.also} if self.also else {})})

    def _repr_html_(self) -> str:
        """In a notebook: the sentence, then one row a field."""
        shown = {k: v for k, v in self.as_json().items() if k not in ("why", "certificate", "also")}
        return f"<p><b>{html.escape(self.why)}</b></p>{_table(shown)}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Constructions:
    """One construction a row of `query`; feasible where every row is."""

    query: Array
    rows: Sequence[Construction]
    why: str
    weights: Array | None = None
    output: Array | None = None
    also: Mapping[str, Any] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Whether every row does what was asked."""
        return all(row.feasible for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """ "query" is the matrix, "rows" the constructions."""
        found: dict[str, Any] = {"query": self.query, "feasible": self.feasible, "why": self.why}
        for name in ("weights", "output"):
            if getattr(self, name) is not None:
                found[name] = getattr(self, name)
        answer = plain({**found, **({"also": self.also} if self.also else {})})
        return {**answer, "rows": [row.as_json() for row in self.rows]}

    def _repr_html_(self) -> str:
        """In a notebook: the sentence, then one row a query."""
        shown = {str(i): row.why for i, row in enumerate(self.rows)}
        return f"<p><b>{html.escape(self.why)}</b></p>{_table(shown)}"


def plain(value: Any) -> Any:
    """Numpy to lists and numbers; NaN and infinity to null, with a reason in the same object."""
    if isinstance(value, Mapping):
        found = {str(name): plain(item) for name, item in value.items()}
        missing = [str(n) for n, item in value.items() if _not_finite(item)]
        if missing and "reason" not in found:
            found["reason"] = f"no finite value exists: {', '.join(missing)}"
        return found
    if isinstance(value, np.ndarray):
        finite = value.dtype.kind != "f" or bool(np.isfinite(value).all())
        return value.tolist() if finite else plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    return None if _not_finite(value) else value


def _not_finite(value: Any) -> bool:
    return isinstance(value, float | np.floating) and not math.isfinite(value)


def _table(shown: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(_brief(value))}</td></tr>"
        for name, value in shown.items()
    )
    return f"<table>{rows}</table>"


def _brief(value: Any) -> str:
    """Four digits; the first entries of a long list."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        rest = ", …" if len(value) > _SHOWN else ""
        return f"[{', '.join(_brief(item) for item in value[:_SHOWN])}{rest}]"
    return str(value)
