"""One attention layer that must find the item asked for; the arms differ in how it chooses.

    x_query = A[asked]        x_key_i = K[key_i] + V[value_i]        logits = R · attention(...)

All entries start with the spread that keeps variances (embeddings of size 1, maps 1/√width), so
that scores start with a spread near 1 and a temperature means the same in every arm.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from attnlab.parts.attention import Attention, Steps
from attnlab.parts.initialise import normal, normal_
from attnlab.parts.mask import Mask
from attnlab.parts.normalise import Normalise
from attnlab.parts.part import Dims
from attnlab.parts.position import NoPosition
from attnlab.parts.project import Linear
from attnlab.studies.hard_attention.task import Rows, Sizes

TABLES = ("asked", "key", "value")


@dataclass(frozen=True)
class Choice:
    """What an arm changes: the parts, T at the first and last step, embeddings held fixed."""

    normalise: str = "softmax"
    mask: str = "full"
    temperature: tuple[float, float] = (1.0, 1.0)
    fixed: bool = False

    @staticmethod
    def of(plain: dict[str, Any]) -> "Choice":
        """From the plain values a trial stores."""
        hot, cold = plain.get("temperature", (1.0, 1.0))
        return Choice(**{**plain, "temperature": (float(hot), float(cold))})


class Lookup(nn.Module):
    """Embeddings, one head of attention, a linear read-out."""

    def __init__(self, sizes: Sizes, choice: Choice, generator: torch.Generator) -> None:
        super().__init__()
        d = sizes.width
        self.dims = Dims.of(d, heads=1, block=sizes.pairs, bias=False)
        mask = cast("Mask.Config", Mask.config_from_json({"name": choice.mask}))
        parts = Attention.Config(mask=mask, normalise=_normalise(choice.normalise))
        none = NoPosition.Config().build(self.dims, generator)
        self.attention = Attention(parts, self.dims, none, generator)
        self.asked = normal((sizes.symbols, d), 1.0, generator)
        self.key = normal((sizes.symbols, d), 0.5**0.5, generator)
        self.value = normal((sizes.answers, d), 0.5**0.5, generator)
        self.read = normal((sizes.answers, d), d**-0.5, generator)
        for weight in (self.maps, self.attention.merge.out.weight):
            normal_(weight, d**-0.5, generator)
        if choice.fixed:
            for name in TABLES:
                getattr(self, name).requires_grad_(False)
        self.temperature = choice.temperature[0]

    @property
    def maps(self) -> nn.Parameter:
        """The rows of W_q, then W_k, then W_v."""
        assert isinstance(self.attention.project, Linear)
        return cast("nn.Parameter", self.attention.project.qkv.weight)

    def items(self, rows: Rows) -> Tensor:
        """What keys and values are computed from: batch × pairs × width."""
        return self.key[rows.keys] + self.value[rows.values]

    def steps(self, rows: Rows, items: Tensor | None = None) -> Steps:
        """Everything attention computes for the one query of each row."""
        self.attention.scale = self.dims.d_head**-0.5 / self.temperature
        seen = self.items(rows) if items is None else items
        return self.attention.steps(self.asked[rows.asked][:, None], seen)

    def logits(self, steps: Steps) -> Tensor:
        """Batch × answers."""
        return steps.out[:, 0] @ self.read.T

    def forward(self, rows: Rows) -> Tensor:
        """Logits of the answers."""
        return self.logits(self.steps(rows))

    def read_with(self, name: str) -> Normalise:
        """Another normaliser in place of its own; the one that was there is returned."""
        own = self.attention.normalise
        self.attention.normalise = _normalise(name).build(self.dims, torch.Generator())
        return own


def _normalise(name: str) -> Normalise.Config:
    return cast("Normalise.Config", Normalise.config_from_json({"name": name}))
