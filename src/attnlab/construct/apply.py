"""apply: scores, weights and output of a given query, by softmax or by argmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.construct.hard import highest_scores
from attnlab.construct.inputs import AttentionInputs, Scale, check_vector
from attnlab.construct.numerics import Array
from attnlab.construct.result import name_keys, plain


@dataclass(frozen=True, eq=False)
class Attention:
    """What attention makes of a query; of all `ties` for the highest score argmax takes the first.

    `lead` is the highest score minus the next lower one, None where all scores tie; `output` is
    None where no values were given.
    """

    kind: str  # softmax or argmax
    query: Array
    scores: Array
    weights: Array
    output: Array | None
    ties: tuple[int, ...]
    lead: float | None
    scale: float

    @property
    def why(self) -> str:
        """The result in one sentence."""
        first = self.ties[0]
        top = f"{self.scores[first]:.6g}"
        if len(self.ties) > 1:
            chosen = f"argmax takes the first, key {first}"
            if self.kind == "softmax":
                chosen = f"softmax gives each of them weight {self.weights[first]:.4g}"
            return f"{name_keys(self.ties).capitalize()} tie for the highest score, {top}: {chosen}"
        lead = "" if self.lead is None else f", {self.lead:.6g} above the next"
        gets = "all" if self.kind == "argmax" else f"{self.weights[first]:.4g}"
        return f"Key {first} has the highest score, {top}{lead}, and gets {gets} of the weight"

    def as_json(self) -> dict[str, Any]:
        """The fields as lists and numbers, without those that do not apply."""
        fields = {
            "kind": self.kind,
            "query": self.query,
            "scores": self.scores,
            "weights": self.weights,
            "output": self.output,
            "ties": self.ties,
            "lead": self.lead,
            "scale": self.scale,
            "why": self.why,
        }
        return plain({name: value for name, value in fields.items() if value is not None})


def apply(
    keys: Any, query: Any, values: Any = None, scale: Scale = 1.0, hard: bool = False
) -> Attention:
    """The attention of a query over the keys: softmax(scale K q), or all on the highest score."""
    inputs = AttentionInputs.check(keys, scale, values)
    q = check_vector(query, inputs.keys.shape[1], "query")
    scores, ties = highest_scores(inputs.keys, q, inputs.scale)
    rest = np.delete(scores, ties)
    weights = np.eye(len(scores))[ties[0]] if hard else inputs.weights(q)
    return Attention(
        kind="argmax" if hard else "softmax",
        query=q,
        scores=scores,
        weights=weights,
        output=inputs.output(weights),
        ties=ties,
        lead=float(scores.max() - rest.max()) if rest.size else None,
        scale=inputs.scale,
    )
