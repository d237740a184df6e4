"""The same forward with attention taken away: its weights made uniform, or its output zero.

Softmax over positions and the fused attention of torch are replaced while the model runs; masked
places stay masked. Nothing of the model itself is changed.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnlab.audit.probing.attention_scores import FUSED, fused_scores

SOFTMAX = (torch.softmax, functional.softmax, Tensor.softmax)


class AblateAttention(TorchFunctionMode):
    """`how`: "uniform" (every visible position counts alike) or "zero" (none counts)."""

    def __init__(self, length: int, how: str) -> None:
        super().__init__()
        self.length, self.how, self.calls = length, how, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        made = func(*args, **given)
        if func in SOFTMAX and args and isinstance(args[0], Tensor):
            scores = args[0]
            square = scores.ndim >= 2 and scores.shape[-2:] == (self.length, self.length)
            return self._weights(scores).to(made.dtype) if square else made
        if func is functional.scaled_dot_product_attention:
            known = {**dict(zip(FUSED, args, strict=False)), **given}
            if known["query"].shape[-2] == known["key"].shape[-2] == self.length:
                return (self._weights(fused_scores(known)) @ _values(known)).to(made.dtype)
        return made

    def _weights(self, scores: Tensor) -> Tensor:
        self.calls += 1
        if self.how == "zero":
            return torch.zeros_like(scores)
        never = torch.finfo(scores.dtype).min / 4  # written for −∞ by those who avoid it
        visible = (scores > never).to(scores.dtype)
        return visible / visible.sum(dim=-1, keepdim=True).clamp_min(1)


def _values(known: dict[str, Any]) -> Tensor:
    """One block of values a query head."""
    groups = known["query"].shape[-3] // known["value"].shape[-3]
    return known["value"].repeat_interleave(groups, dim=-3)
