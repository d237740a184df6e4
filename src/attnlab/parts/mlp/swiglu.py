"""W₃ (silu(W₁ x) · W₂ x), silu(u) = u / (1 + exp(−u)) (Shazeer 2020); the MLP of Llama."""

from torch.nn.functional import silu

from attnlab.parts.mlp.base import Mlp, States


class Swiglu(Mlp, name="swiglu"):
    """`wide` holds the rows of the gate W₁, then those of W₂: one product for both."""

    products = 2

    def forward(self, x: States) -> States:
        """W₃ (silu(gate) · up)."""
        gate, up = self.wide(x).chunk(2, dim=-1)
        return self.out(silu(gate) * up)
