"""x / √(mean of x² + eps) · weight (Zhang, Sennrich 2019); the norm of Llama."""

from torch.nn.functional import rms_norm

from attnlab.parts.norm.base import Norm, Rows


class Rms(Norm, name="rms"):
    """RMSNorm: no mean is subtracted, and there is never a bias."""

    def forward(self, x: Rows) -> Rows:
        """Mean square 1, then the weight."""
        return rms_norm(x, x.shape[-1:], self.weight, self.eps)
