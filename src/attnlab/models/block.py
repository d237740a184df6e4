"""One layer of a GPT:  x ← x + attention(norm(x));  x ← x + mlp(norm(x))."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnlab.parts.attention import Attention
from attnlab.parts.mlp import Mlp
from attnlab.parts.norm import Norm

States = Float[Tensor, "batch pos d_model"]


class Block(nn.Module):
    """Norms come before what they feed; whatever returns to x passes an output map."""

    def __init__(
        self, attention: Attention, feed_forward: Mlp, attention_norm: Norm, feed_forward_norm: Norm
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
