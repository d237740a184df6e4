"""(x − mean) / √(variance + eps) · weight + bias (Ba, Kiros, Hinton 2016)."""

from torch.nn.functional import layer_norm

from attnlab.parts.norm.base import Norm, Rows


class Layer(Norm, name="layer"):
    """LayerNorm; without a bias where the model's linear maps have none."""

    has_bias = True

    def forward(self, x: Rows) -> Rows:
        """Mean 0 and variance 1, then weight and bias."""
        return layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
