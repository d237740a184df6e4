"""Seam `position`: how a part of the model knows where a token stands."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from attnlab.parts.part import Part, Places

Embeddings = Float[Tensor, "batch pos d_model"]
Query = Float[Tensor, "batch head query d_head"]
Key = Float[Tensor, "batch head key d_head"]
Scores = Float[Tensor, "batch head query key"]


class Position(Part):
    """Three places to act, each the identity unless overridden.

    Whatever is done to a query, a key or a score depends on its own place or pair of places only.
    """

    additive: ClassVar[bool] = False  # an overridden on_scores is scores + (a function of places)

    @dataclass(frozen=True, kw_only=True)
    class Config(Part.Config["Position"]):
        """Nothing that all positions share."""

    def on_embeddings(self, x: Embeddings, places: Int[Tensor, "#batch pos"]) -> Embeddings:
        """Once, before the first layer."""
        del places
        return x

    def on_heads(self, q: Query, k: Key, places: Places) -> tuple[Query, Key]:
        """In every layer, before the scores."""
        del places
        return q, k

    def on_scores(self, scores: Scores, places: Places) -> Scores:
        """In every layer, on the scaled scores."""
        del places
        return scores

    @property
    def touches_scores(self) -> bool:
        """Whether on_scores is more than the identity."""
        return type(self).on_scores is not Position.on_scores
