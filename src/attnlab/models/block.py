"""One layer of a GPT:  x ← x + attention(norm(x));  x ← x + feed_forward(norm(x))."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from attnlab.parts.attention import Attention
from attnlab.parts.initialise import linear
from attnlab.parts.part import Dims

States = Float[Tensor, "batch pos d_model"]


class FeedForward(nn.Module):
    """W₂ gelu(W₁ x), hidden width `ratio` · d_model; gelu by its tanh formula, as in GPT-2."""

    def __init__(self, dims: Dims, ratio: int, generator: torch.Generator) -> None:
        super().__init__()
        self.wide = linear(dims.d_model, ratio * dims.d_model, dims.bias, generator)
        self.out = linear(ratio * dims.d_model, dims.d_model, dims.bias, generator)

    def forward(self, x: States) -> States:
        """Each position on its own."""
        return self.out(functional.gelu(self.wide(x), approximate="tanh"))


class Block(nn.Module):
    """Norms come before what they feed; whatever returns to x passes an output map."""

    def __init__(
        self,
        attention: Attention,
        feed_forward: FeedForward,
        attention_norm: nn.LayerNorm,
        feed_forward_norm: nn.LayerNorm,
    ) -> None:
        super().__init__()
        self.attention_norm, self.attention = attention_norm, attention
        self.feed_forward_norm, self.feed_forward = feed_forward_norm, feed_forward

    def forward(self, x: States, attend: Callable[[Attention, States], States]) -> States:
        """`attend` runs the attention in one of its ways: whole, by steps, or cached."""
        x = x + attend(self.attention, self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))

    def shrink_residual(self, layers: int) -> None:
        """Divide both output maps by √(2·layers): x keeps its size at the start (GPT-2)."""
        with torch.no_grad():
            for out in (self.attention.merge.out, self.feed_forward.out):
                out.weight.div_(math.sqrt(2 * layers))
