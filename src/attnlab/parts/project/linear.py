"""q = W_q x, k = W_k x, v = W_v x: three linear maps, kept and applied as one."""

import torch
from torch import Tensor
from torch.nn import functional

from attnlab.parts.initialise import linear
from attnlab.parts.part import Dims
from attnlab.parts.project.base import Key, KeyRows, Project, Query, QueryRows


class Linear(Project, name="linear"):
    """`qkv` holds the rows of W_q, then W_k, then W_v; N(0, 0.02²) at the start."""

    grouped = True

    def __init__(self, config: Project.Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.inner, self.kv_inner = dims.heads * dims.d_head, dims.kv_heads * dims.d_head
        self.qkv = linear(dims.d_model, self.inner + 2 * self.kv_inner, dims.bias, generator)

    def forward(self, x_query: QueryRows, x_key: KeyRows) -> tuple[Query, Key, Key]:
        """One product when queries and keys come from the same rows."""
        if x_query is x_key:
            widths = [self.inner, self.kv_inner, self.kv_inner]
            q, k, v = self.qkv(x_query).split(widths, dim=-1)
        else:
            q = self._part(x_query, slice(None, self.inner))
            k, v = self._part(x_key, slice(self.inner, None)).chunk(2, dim=-1)
        return self.split(q), self.split(k, self.kv_heads), self.split(v, self.kv_heads)

    def _part(self, x: Tensor, rows: slice) -> Tensor:
        bias = None if self.qkv.bias is None else self.qkv.bias[rows]
        return functional.linear(x, self.qkv.weight[rows], bias)
