"""Seam `project`: x -> q, k, v."""

from attnlab.parts.project.base import Project as Project
from attnlab.parts.project.base import repeat_heads as repeat_heads
from attnlab.parts.project.linear import Linear as Linear
from attnlab.parts.project.low_rank import LowRank as LowRank
from attnlab.parts.project.mlp import Mlp as Mlp
from attnlab.parts.project.tied import Tied as Tied
