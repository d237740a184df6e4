"""identity: a query for every key, so that attention returns every value unmixed.

Row j of the query matrix is the shortest query whose weight on key j reaches w; where key j lies
in the hull of the others, the best that any query can do (select.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from attnlab.construct.batch import select_many
from attnlab.construct.inputs import Scale, check_keys, check_values
from attnlab.construct.result import Construction, Constructions

_NAMED = 8  # keys a sentence lists


def identity(
    keys: Any, weight: float = 0.99, scale: Scale = 1.0, values: Any = None
) -> Constructions:
    """One selection a key; feasible where every key can be selected."""
    found = check_keys(keys)
    given = check_values(values, len(found))
    rows = select_many(found, None, weight, scale, given)
    weights = np.stack([row.weights for row in rows if row.weights is not None])
    norms = [row.norm for row in rows if row.norm is not None and row.feasible]
    also: dict[str, Any] = {"selected": sum(row.feasible for row in rows), "keys": len(rows)}
    if norms:
        also["longest_query"] = max(norms)
    return Constructions(
        query=np.stack([row.query for row in rows if row.query is not None]),
        rows=rows,
        why=_sentence(rows, weight),
        weights=weights,
        output=None if given is None else weights @ given,
        also=also,
    )


def _sentence(rows: list[Construction], weight: float) -> str:
    failed = [i for i, row in enumerate(rows) if not row.feasible]
    if not failed:
        return f"every one of the {len(rows)} keys gets weight {weight:g} from its own query"
    names = ", ".join(map(str, failed[:_NAMED])) + (", …" if len(failed) > _NAMED else "")
    return f"{len(failed)} of {len(rows)} keys cannot get weight {weight:g} from any query: {names}"
