"""Logits out of whatever a forward returns, and the longest text that it reads."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.audit.probing.subject import AttentionMask
from attnlab.core.errors import UsageError

LOGIT_FIELDS = ("logits", "prediction_logits", "last_hidden_state")
TRIED_CONTEXTS = (2048, 1024, 512, 256, 128, 64, 32, 16, 8)  # where the context is not known


def extract_logits(output: Any, ids: Tensor, name: str) -> Tensor:
    """The logits (batch, positions, vocabulary); one answer per row becomes one position."""
    output = _tensor(output)
    count, length = ids.shape
    flat = isinstance(output, Tensor) and output.ndim == 2
    if flat and output.shape[0] == count * length != count:
        output = output.unflatten(0, (count, length))  # flattened for a loss
    if not isinstance(output, Tensor) or not (
        output.is_floating_point() and output.ndim in (2, 3) and output.shape[0] == count
    ):
        shape = tuple(getattr(output, "shape", ())) or type(output).__name__
        raise UsageError(f"{name}: must give logits (batch, length, vocabulary), gave {shape}")
    return output[:, None] if output.ndim == 2 else output


def _tensor(output: Any) -> Any:
    """The field `logits` or the like, else the first item of a tuple that is not just a loss."""
    for field in LOGIT_FIELDS:
        inner = output.get(field) if isinstance(output, Mapping) else getattr(output, field, None)
        if isinstance(inner, Tensor | np.ndarray):
            return _tensor(inner)
    if isinstance(output, tuple | list) and output:
        wide = [item for item in output if getattr(item, "ndim", 0) > 1]
        return _tensor(wide[0]) if wide else output[0]
    return torch.from_numpy(output) if isinstance(output, np.ndarray) else output


def longest_input(forward: Callable[[Tensor, AttentionMask], Tensor], step: int = 1) -> int:
    """Found by bisection: a text too long for the position table, or anything else, raises."""
    least = 3 if step == 1 else step
    low, high = least // step, TRIED_CONTEXTS[0] // step + 1
    for length in TRIED_CONTEXTS:
        if length // step > low and runs(forward, length // step * step):
            low = length // step
            break
        high = min(high, max(length // step, low + 1))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if runs(forward, middle * step) else (low, middle)
    return low * step


def runs(forward: Callable[[Tensor, AttentionMask], Tensor], length: int) -> bool:
    """Whether a text of this length runs and is not truncated."""
    try:
        with torch.no_grad():
            output = forward(torch.zeros(1, length, dtype=torch.long), None)
    except Exception:  # anyone's code
        return False
    return output.shape[1] in (1, length)
