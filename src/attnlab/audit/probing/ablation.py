"""A forward pass with attention ablated: its weights made uniform, or its output zero.

Softmax over positions and torch's fused attention are replaced while the model runs; masked
positions stay masked. The model itself is not changed.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnlab.audit.probing.attention_scores import FUSED, fused_scores

SOFTMAX = (torch.softmax, functional.softmax, Tensor.softmax)


class AblateAttention(TorchFunctionMode):
    """`how`: "uniform" (equal weights on all visible positions) or "zero" (no weights)."""

    def __init__(self, length: int, how: str) -> None:
        super().__init__()
        self.length, self.how, self.calls = length, how, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        output = func(*args, **given)
        if func in SOFTMAX and args and isinstance(args[0], Tensor):
            scores = args[0]
            square = scores.ndim >= 2 and scores.shape[-2:] == (self.length, self.length)
            return self._weights(scores).to(output.dtype) if square else output
        if func is functional.scaled_dot_product_attention:
            arguments = {**dict(zip(FUSED, args, strict=False)), **given}
            if arguments["query"].shape[-2] == arguments["key"].shape[-2] == self.length:
                return (self._weights(fused_scores(arguments)) @ _values(arguments)).to(
                    output.dtype
                )
        return output

    def _weights(self, scores: Tensor) -> Tensor:
        self.calls += 1
        if self.how == "zero":
            return torch.zeros_like(scores)
        never = torch.finfo(scores.dtype).min / 4  # finite masks stand for −∞
        visible = (scores > never).to(scores.dtype)
        return visible / visible.sum(dim=-1, keepdim=True).clamp_min(1)


def _values(arguments: dict[str, Any]) -> Tensor:
    """The values, repeated where several query heads share a key/value head."""
    groups = arguments["query"].shape[-3] // arguments["value"].shape[-3]
    return arguments["value"].repeat_interleave(groups, dim=-3)
