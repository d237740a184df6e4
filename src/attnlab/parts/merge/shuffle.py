"""Heads in a random order, then the output map.

`when="once"` draws the order when the part is made: like `shift` it only permutes columns of the
output map. `when="forward"` draws it anew in every forward, in evaluation too, so the output map
cannot tell the heads apart.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attnlab.core.seeds import Seed
from attnlab.parts.merge.base import Heads, Merge
from attnlab.parts.part import Dims

SEEDS = 2**62


class Shuffle(Merge, name="shuffle"):
    """A call's order is a function of the buffers `seed` and `calls`, so a resumed run repeats it.

    Training and evaluation count apart: how often a model is evaluated changes no trained weight.
    """

    per_position = True  # whatever the order, heads of one position stay with it
    fixed: Tensor | None
    seed: Tensor
    calls: Tensor

    @dataclass(frozen=True, kw_only=True)
    class Config(Merge.Config):
        """When the order is drawn."""

        when: Literal["forward", "once"] = "forward"

    def __init__(self, config: Config, dims: Dims, generator: torch.Generator) -> None:
        super().__init__(config, dims, generator)
        once = config.when == "once"
        order = torch.randperm(dims.heads, generator=generator, device=generator.device)
        seed = torch.randint(SEEDS, (), generator=generator, device=generator.device)
        self.register_buffer("fixed", order if once else None)
        self.register_buffer("seed", None if once else seed)
        self.register_buffer("calls", None if once else torch.zeros(2, dtype=torch.int64))

    @property
    def why_not_cached(self) -> str | None:
        """Steps of one token would each draw an order that the whole sequence draws once."""
        return "it draws a new order of heads in every forward" if self.fixed is None else None

    def arrange(self, heads: Heads) -> Heads:
        """Heads taken in this call's order."""
        order = self.order(heads.shape[1])
        if self.fixed is None:
            self.calls[int(self.training)] += 1
        return heads[:, order.to(heads.device)]

    def order(self, heads: int) -> Tensor:
        """A permutation of range(heads): the one the next call uses."""
        if self.fixed is not None:
            return self.fixed
        mode = int(self.training)
        return _draw_uncompiled(heads, self.seed, mode, self.calls[mode])

    def expected_failed_checks(self) -> dict[str, str]:
        """An order drawn in every forward needs the value of a buffer."""
        reason = "a tensor without storage holds no counter to draw the order from"
        return {"device": reason} if self.fixed is None else {}


def _draw(heads: int, seed: Tensor, mode: int, call: Tensor) -> Tensor:
    stream = Seed(int(seed)).child("order", mode, int(call))
    return torch.randperm(heads, generator=stream.torch_generator())


# a generator is made here, which no graph can hold
_draw_uncompiled: Any = torch.compiler.disable(_draw)
