"""W₂ gelu(W₁ x), gelu by its tanh formula (Hendrycks, Gimpel 2016), as in GPT-2."""

from torch.nn.functional import gelu

from attnlab.parts.mlp.base import Mlp, States


class Gelu(Mlp, name="gelu"):
    """Two linear maps with a smooth step between."""

    def forward(self, x: States) -> States:
        """W₂ gelu(W₁ x)."""
        return self.out(gelu(self.wide(x), approximate="tanh"))
