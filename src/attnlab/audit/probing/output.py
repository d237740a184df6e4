"""What a forward gives, as logits, and how long a text it reads."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.audit.probing.subject import AttentionMask
from attnlab.core.errors import UsageError

LOGIT_FIELDS = ("logits", "prediction_logits", "last_hidden_state")
TRIED_LENGTHS = (2048, 1024, 512, 256, 128, 64, 32, 16, 8)  # tried where no context is stated


def extract_logits(found: Any, ids: Tensor, name: str) -> Tensor:
    """A tensor out of whatever holds it; one answer a row becomes one position."""
    found = _tensor(found)
    count, length = ids.shape
    if isinstance(found, Tensor) and found.ndim == 2 and found.shape[0] == count * length != count:
        found = found.unflatten(0, (count, length))  # laid out for a loss
    if not isinstance(found, Tensor) or not (
        found.is_floating_point() and found.ndim in (2, 3) and found.shape[0] == count
    ):
        shape = tuple(getattr(found, "shape", ())) or type(found).__name__
        raise UsageError(f"{name}: must give logits (batch, length, vocabulary), gave {shape}")
    return found[:, None] if found.ndim == 2 else found


def _tensor(found: Any) -> Any:
    """`.logits`, ["logits"], the first tensor of a tuple that is no mere loss, an array."""
    for field in LOGIT_FIELDS:
        inner = found.get(field) if isinstance(found, Mapping) else getattr(found, field, None)
        if isinstance(inner, Tensor | np.ndarray):
            return _tensor(inner)
    if isinstance(found, tuple | list) and found:
        wide = [item for item in found if getattr(item, "ndim", 0) > 1]
        return _tensor(wide[0]) if wide else found[0]
    return torch.from_numpy(found) if isinstance(found, np.ndarray) else found


def longest_input(forward: Callable[[Tensor, AttentionMask], Tensor], step: int = 1) -> int:
    """By halving: too long for a table of positions, or for anything else, is an error."""
    least = 3 if step == 1 else step
    low, high = least // step, TRIED_LENGTHS[0] // step + 1
    for length in TRIED_LENGTHS:
        if length // step > low and runs(forward, length // step * step):
            low = length // step
            break
        high = min(high, max(length // step, low + 1))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if runs(forward, middle * step) else (low, middle)
    return low * step


def runs(forward: Callable[[Tensor, AttentionMask], Tensor], length: int) -> bool:
    """Does a text of this length go through, and is none of it cut away?"""
    try:
        with torch.no_grad():
            found = forward(torch.zeros(1, length, dtype=torch.long), None)
    except Exception:  # anyone's code
        return False
    return found.shape[1] in (1, length)
