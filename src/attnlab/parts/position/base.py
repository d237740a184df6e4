"""Seam `position`: how a part of the model knows where a token stands."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from attnlab.parts.part import Key, Part, PositionIds, Query, Scores

Embeddings = Float[Tensor, "batch pos d_model"]


class Position(Part):
    """Three methods, each the identity unless overridden.

    What is done to a query or key depends on its own position, to a score on its pair of them.
    """

    additive: ClassVar[bool] = False  # on_scores adds a function of positions to the scores

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Position"]):
        """Nothing that all positions share."""

    def on_embeddings(self, x: Embeddings, position_ids: Int[Tensor, "#batch pos"]) -> Embeddings:
        """Once, before the first layer."""
        del position_ids
        return x

    def on_heads(self, q: Query, k: Key, position_ids: PositionIds) -> tuple[Query, Key]:
        """In every layer, before the scores."""
        del position_ids
        return q, k

    def on_scores(self, scores: Scores, position_ids: PositionIds) -> Scores:
        """In every layer, on the scaled scores."""
        del position_ids
        return scores

    @property
    def touches_scores(self) -> bool:
        """Whether on_scores is more than the identity."""
        return type(self).on_scores is not Position.on_scores
