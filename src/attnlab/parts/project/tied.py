"""q = W x, k = W x, v = W_v x: queries and keys share one map, as in the solvable model."""

import torch

from attnlab.parts.initialise import linear
from attnlab.parts.part import Dims
from attnlab.parts.project.base import Key, KeyRows, Project, Query, QueryRows


class Tied(Project, name="tied"):
    """Without positions the scores of self-attention are symmetric."""

    def __init__(self, config: Project.Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        inner = dims.heads * dims.d_head
        self.shared = linear(dims.d_model, inner, dims.bias, generator)
        self.value = linear(dims.d_model, inner, dims.bias, generator)

    def forward(self, x_query: QueryRows, x_key: KeyRows) -> tuple[Query, Key, Key]:
        """Queries are the keys when both come from the same rows."""
        k = self.split(self.shared(x_key))
        q = k if x_query is x_key else self.split(self.shared(x_query))
        return q, k, self.split(self.value(x_key))
