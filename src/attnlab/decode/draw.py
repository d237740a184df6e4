"""Draw an id with probability softmax(l)_i by the Gumbel-max trick (Gumbel 1954).

That is argmax_i (l_i + g_i) with g_i = −log(−log u_i). It is used twice: to draw a block of 256 ids
by the blocks' log-sum-exp, then an id of that block.

Why not the inverse of the cumulative sum: the logits of a text change by rounding with its
neighbours in the batch. Rounding moves every border of a cumulative sum, and a uniform number next
to any of thousands of borders then gives another id; here only a near-tie of the two largest sums
does. (SmolLM2, one text alone and padded in a batch, logits 3e-5 apart: 9e-5 of the draws differ
with the cumulative sum, 2e-7 with this method.)
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnlab.core.seeds import Seed
from attnlab.decode.filters import Filters, Scores

BLOCK = 256
AHEAD = 32  # steps whose numbers are made at once
Uniforms = Float[Tensor, "row number"]


def uniforms_per_draw(vocabulary: int) -> int:
    """How many uniform numbers a draw uses: one per block and one per id of a block."""
    return _blocks(vocabulary) + min(BLOCK, vocabulary)


def draw(logits: Scores, uniforms: Uniforms) -> Int[Tensor, " row"]:
    """Draw one id per row, as a function of the row's logits and uniform numbers alone."""
    rows, size = logits.shape
    blocks, width = _blocks(size), min(BLOCK, size)
    noise = -torch.log(-torch.log(uniforms.clamp_min(torch.finfo(uniforms.dtype).tiny)))
    padded = torch.nn.functional.pad(logits, (0, blocks * width - size), value=-torch.inf)
    inside = padded.reshape(rows, blocks, width)
    block = (inside.logsumexp(dim=-1) + noise[:, :blocks]).argmax(dim=-1)
    chosen = inside[torch.arange(rows, device=logits.device), block]
    return block * width + (chosen + noise[:, blocks:]).argmax(dim=-1)


def _blocks(vocabulary: int) -> int:
    return -(-vocabulary // BLOCK)


def sample(logits: Scores, *, generator: torch.Generator, **filters: float) -> Int[Tensor, " row"]:
    """Draw one id per row: `sample(logits, generator=g, temperature=0.8, top_k=20)`."""
    kept = Filters(**filters)(logits.double())  # pyright: ignore[reportArgumentType]
    shape = (len(logits), uniforms_per_draw(logits.shape[-1]))
    uniforms = torch.rand(shape, generator=generator, dtype=torch.float64)
    return draw(kept, uniforms.to(logits.device))


class UniformStream:
    """Uniform numbers for one draw after another; each row has its own generator."""

    def __init__(self, seeds: Sequence[Seed], vocabulary: int, device: torch.device) -> None:
        self._generators = [seed.torch_generator() for seed in seeds]
        self._shape, self._device = (AHEAD, uniforms_per_draw(vocabulary)), device
        self._ahead, self._used = torch.empty(0), AHEAD

    def next(self) -> Uniforms:
        """The numbers for the next draw of every row."""
        if self._used == AHEAD:
            numbers = [
                torch.rand(self._shape, generator=g, dtype=torch.float64) for g in self._generators
            ]
            self._ahead, self._used = torch.stack(numbers, dim=1).to(self._device), 0
        self._used += 1
        return self._ahead[self._used - 1]
