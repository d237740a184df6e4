"""What a forward gives, as logits, and how long a text it reads."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnlab.audit.subject import Visible
from attnlab.core.errors import UsageError

FIELDS = ("logits", "prediction_logits", "last_hidden_state")
LENGTHS = (2048, 1024, 512, 256, 128, 64, 32, 16, 8)  # tried where no context is stated


def unwrapped(found: Any, ids: Tensor, name: str) -> Tensor:
    """A tensor out of a tensor, a tuple or an object; one answer a row becomes one position."""
    for field in FIELDS:
        inner = getattr(found, field, None)
        if isinstance(inner, Tensor):
            found = inner
            break
    if isinstance(found, tuple | list) and found:
        found = found[0]
    if not isinstance(found, Tensor) or not (
        found.is_floating_point() and found.ndim in (2, 3) and found.shape[0] == ids.shape[0]
    ):
        shape = tuple(getattr(found, "shape", ())) or type(found).__name__
        raise UsageError(f"{name}: must give logits (batch, length, vocabulary), gave {shape}")
    return found[:, None] if found.ndim == 2 else found


def longest(forward: Callable[[Tensor, Visible], Tensor]) -> int:
    """By halving: too long for a table of positions, or for anything else, is an error."""
    low, high = 3, LENGTHS[0] + 1
    for length in LENGTHS:
        if runs(forward, length):
            low = length
            break
        high = length
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if runs(forward, middle) else (low, middle)
    return low


def runs(forward: Callable[[Tensor, Visible], Tensor], length: int) -> bool:
    """Does a text of this length go through?"""
    try:
        with torch.no_grad():
            forward(torch.zeros(1, length, dtype=torch.long), None)
    except Exception:  # anyone's code
        return False
    return True
