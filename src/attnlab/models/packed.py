"""x Wᵀ with W laid out once as oneDNN wants it: for a few rows on a CPU up to twice as fast.

    maps = packed(model, [[w1], [w2, w3]], rows=8);   y = maps[1](x)      # (W₂ x, W₃ x), joined

A copy of the weights, kept for as long as they stay as they are: a step of training, which writes
into them, makes it anew. Where torch, the type or the device have no such layout, a plain product.
"""

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

Map = Callable[[Tensor], Tensor]
MOST = 2_000_000_000  # bytes of copies: a larger model is left as it is
State = tuple[int, tuple[tuple[int, int], ...]]  # rows; where each weight lies, how often written
_KEPT: "WeakKeyDictionary[nn.Module, tuple[State, list[Map]]]" = WeakKeyDictionary()


def why_not_packed(weights: Sequence[Tensor]) -> str | None:
    """Why there is no such layout; None when there is."""
    if not (torch.backends.mkldnn.is_available() and _operations()):
        return "this torch has no oneDNN"
    if any(w.device.type != "cpu" or w.dtype != torch.float32 for w in weights):
        return "not float32 on a CPU"
    if sum(w.numel() * w.element_size() for w in weights) > MOST:
        return "too large to be kept twice"
    return None


def plain(groups: Sequence[Sequence[Tensor]]) -> list[Map]:
    """One map a group, by products of the weights as they lie."""
    return [_plain(group) for group in groups]


def packed(owner: nn.Module, groups: Sequence[Sequence[Tensor]], rows: int) -> list[Map]:
    """The same from laid-out copies, for inputs of so many rows; made once a state of the weights.

    `owner` is the model they belong to, with which the copies go.
    """
    weights = [weight for group in groups for weight in group]
    if why_not_packed(weights):
        return plain(groups)
    state = rows, tuple((w.data_ptr(), _written(w)) for w in weights)
    found = _KEPT.get(owner)
    if found is None or found[0] != state:
        found = state, [_packed([w.detach() for w in group], rows) for group in groups]
        _KEPT[owner] = found
    return found[1]


def _written(weight: Tensor) -> int:
    """How often it was written into; one made for inference alone does not count."""
    return 0 if weight.is_inference() else weight._version


def _operations() -> bool:
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return all(hasattr(torch.ops.mkldnn, name) for name in names)


def _plain(group: Sequence[Tensor]) -> Map:
    if len(group) == 1:
        return lambda x: linear(x, group[0])
    return lambda x: torch.cat([linear(x, weight) for weight in group], dim=-1)


def _packed(group: Sequence[Tensor], rows: int) -> Map:
    laid_out = torch.ops.mkldnn._reorder_linear_weight(torch.cat(list(group)), rows)
    product = torch.ops.mkldnn._linear_pointwise
    return lambda x: product(x, laid_out, None, "none", [], "")
