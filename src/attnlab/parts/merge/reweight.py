"""heads[b,h] · w[b,h],  w[b,h] = ‖heads[b,h]‖ / sum, the norm over the row's whole sequence.

`over="batch"` (as reported) divides by the sum over the rows of the batch: at batch 1 every weight
is 1, some 32 times what training at batch 32 saw, and a row's output depends on its neighbours.
`over="heads"` divides by the sum over the row's heads. Both read the row's future.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from attnlab.parts.merge.base import Heads, Merge
from attnlab.parts.part import Dims


class Reweight(Merge, name="reweight"):
    """Louder heads count more; how loud is known only when the whole row has been read."""

    leaks: ClassVar[str | None] = "a head's weight is its norm over the whole row, the future too"
    rows: Tensor  # of the last training batch

    @dataclass(frozen=True, kw_only=True)
    class Config(Merge.Config):
        """With `off_at_inference`, evaluation multiplies by the mean weight of training instead.

        The weights of a sum over n things have mean 1/n, n = heads, or the rows of the last
        training batch; so the output map meets the scale it was trained on. (A plain 1 is what
        `over="batch"` gives a single sentence anyway.)
        """

        over: Literal["batch", "heads"] = "batch"
        off_at_inference: bool = False

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        self.over_batch = config.over == "batch"
        self.off_at_inference = config.off_at_inference
        self.register_buffer("rows", torch.ones((), dtype=torch.int64))

    def arrange(self, heads: Heads) -> Heads:
        """Each head times its weight."""
        if self.training:
            self.rows.fill_(heads.shape[0])
        elif self.off_at_inference:
            return heads / (self.rows if self.over_batch else heads.shape[1])
        norm = torch.linalg.vector_norm(heads, dim=(2, 3), keepdim=True)
        total = norm.sum(dim=0 if self.over_batch else 1, keepdim=True)
        return heads * (norm / total.clamp_min(torch.finfo(norm.dtype).tiny))

    def expected_failed_checks(self) -> dict[str, str]:
        """Padding at the end is part of the whole row; over the batch, rows see each other too."""
        neighbours = "a head's weight is divided by the sum of its norms over the batch"
        over_batch = {"batch-independence": neighbours, "left-padding": neighbours}
        whole = {"padding": "a head's norm is over the whole row, its padding too"}
        return super().expected_failed_checks() | whole | (over_batch if self.over_batch else {})
