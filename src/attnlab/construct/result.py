"""The result of a construction: the query (or key) asked for, or the proof that there is none.

Fields that do not apply are None and are left out of the JSON. A number without a finite value is
null in the JSON, and "reason" in the same object says so.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attnlab.construct.inputs import AttentionInputs
from attnlab.construct.numerics import Array, norm

_SHOWN = 12  # entries of a vector that a notebook's table prints
_NAMED = 8  # keys that a sentence lists


@dataclass(frozen=True, kw_only=True, eq=False)
class Construction:
    """A solution and its proof: `feasible` if it does what was asked, `why` in one sentence.

    query, key    the solution; where the task is infeasible, the closest that can be done
    matrix        the solution of `extract`; `norm` is then its largest singular value
    weights       attention of that query (and key); output = weights @ values, if values are given
    attained      False where the best value is only approached as the query grows without limit
    margin        by how much the wanted scores exceed the highest other score
    norm          Euclidean norm of the query
    certificate   numbers that prove the answer and can be checked without this package
    kl            KL divergence from the target distribution to the attention, in nats
    residual      how far the optimality conditions, or the equations, are from holding exactly
    also          further quantities of this construction
    """

    matrix: Array | None = None
    query: Array | None = None
    key: Array | None = None
    weights: Array | None = None
    output: Array | None = None
    feasible: bool
    attained: bool | None = None
    margin: float | None = None
    norm: float | None = None
    certificate: Mapping[str, Any] | None = None
    kl: float | None = None
    residual: float | None = None
    why: str
    also: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_query(cls, inputs: AttentionInputs, query: Array, **fields: Any) -> Construction:
        """Fill in the weights, the output and the norm of this query."""
        weights = inputs.weights(query)
        return cls(
            query=query,
            weights=weights,
            output=inputs.output(weights),
            norm=norm(query),
            **fields,
        )

    def as_json(self) -> dict[str, Any]:
        """The fields that apply, as lists and numbers, in the order of the commands' JSON."""
        return applicable({**vars(self), "also": self.also or None})

    def _repr_html_(self) -> str:
        """A notebook shows the sentence and one row per field."""
        shown = {k: v for k, v in self.as_json().items() if k not in ("why", "certificate", "also")}
        return _html(self.why, shown)


@dataclass(frozen=True, kw_only=True, eq=False)
class Constructions:
    """One construction per row of the query matrix, with the weights and outputs of all rows."""

    query: Array
    rows: Sequence[Construction]
    why: str
    weights: Array | None = None
    output: Array | None = None
    also: Mapping[str, Any] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Whether every row is feasible."""
        return all(row.feasible for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The query matrix first, then its sentence and matrices, then one object per row."""
        fields = {"query": self.query, "feasible": self.feasible, "why": self.why}
        fields |= {"weights": self.weights, "output": self.output, "also": self.also or None}
        return {**applicable(fields), "rows": [row.as_json() for row in self.rows]}

    def _repr_html_(self) -> str:
        """A notebook shows the sentence and one row per query."""
        shown = {str(i): row.why for i, row in enumerate(self.rows)}
        return _html(self.why, shown)


def name_keys(indices: Sequence[int]) -> str:
    """The keys in words: "key 2", "keys 0, 1 and 2"; of a long list the first eight."""
    if len(indices) == 1:
        return f"key {indices[0]}"
    if len(indices) > _NAMED:
        return f"keys {', '.join(map(str, indices[:_NAMED]))}, …"
    return f"keys {', '.join(map(str, indices[:-1]))} and {indices[-1]}"


def applicable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are not None, as lists and numbers."""
    return plain({name: value for name, value in fields.items() if value is not None})


def plain(value: Any) -> Any:
    """Arrays become lists; NaN and infinity become null, with a reason in the same object."""
    if isinstance(value, Mapping):
        fields = {str(name): plain(item) for name, item in value.items()}
        missing = [str(n) for n, item in value.items() if _not_finite(item)]
        if missing and "reason" not in fields:
            fields["reason"] = f"no finite value exists: {', '.join(missing)}"
        return fields
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


def _html(why: str, shown: Mapping[str, Any]) -> str:
    """The sentence in bold, and a table of names and values."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(_brief(value))}</td></tr>"
        for name, value in shown.items()
    )
    return f"<p><b>{html.escape(why)}</b></p><table>{rows}</table>"


def _brief(value: Any) -> str:
    """Numbers with four digits, and of a long list the first twelve entries."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        rest = ", …" if len(value) > _SHOWN else ""
        return f"[{', '.join(_brief(item) for item in value[:_SHOWN])}{rest}]"
    return str(value)
