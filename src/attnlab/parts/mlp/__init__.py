"""Seam `mlp`: the feed-forward network of a block, every position on its own."""

from attnlab.parts.mlp.base import Mlp as Mlp
from attnlab.parts.mlp.gelu import Gelu as Gelu
from attnlab.parts.mlp.swiglu import Swiglu as Swiglu
