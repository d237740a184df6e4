"""x Wᵀ with W laid out once as oneDNN wants it: for a few rows on a CPU up to twice as fast.

    with packed_maps(model, rows=8):        # its linear maps and its output matrix
        logits = cached.step(ids)

A copy of the weights, kept for as long as they stay as they are: a step of training, which writes
into them, makes it anew. Where torch, the type or the device have no such layout, ask
`why_not_packed` first.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from attnlab.models.gpt import GPT

MOST = 2_000_000_000  # bytes of copies: a larger model is left as it is
Map = Callable[[Tensor], Tensor]
Place = tuple[nn.Module, str]  # a module, and the method that is the map
Written = tuple[tuple[int, int], ...]  # where each weight lies, how often it was written into
_KEPT: "WeakKeyDictionary[nn.Module, tuple[tuple[int, Written], list[Map]]]" = WeakKeyDictionary()


def why_not_packed(model: "GPT") -> str | None:
    """Why its maps are left as they are; None when they can be packed."""
    weights = [weight for _, weight, _ in _maps(model)]
    names = ("_reorder_linear_weight", "_linear_pointwise")
    if not torch.backends.mkldnn.is_available() or any(
        not hasattr(torch.ops.mkldnn, name) for name in names
    ):
        return "this torch has no oneDNN"
    if any(w.device.type != "cpu" or w.dtype != torch.float32 for w in weights):
        return "not float32 on a CPU"
    if sum(w.numel() * w.element_size() for w in weights) > MOST:
        return "too large to be kept twice"
    return None


@contextmanager
def packed_maps(model: "GPT", rows: int) -> Iterator[None]:
    """Inside, every linear map of the model runs from its laid-out copy; for inference alone."""
    places = [place for place, _, _ in _maps(model)]
    maps = _packed_copies(model, rows)
    for (module, method), function in zip(places, maps, strict=True):
        vars(module)[method] = function
    try:
        yield
    finally:
        for module, method in places:
            vars(module).pop(method, None)


def _maps(model: "GPT") -> list[tuple[Place, Tensor, Tensor | None]]:
    """Where every linear map is, its weight and its bias; the output matrix last."""
    maps: list[tuple[Place, Tensor, Tensor | None]] = [
        ((module, "forward"), module.weight, module.bias)
        for module in model.modules()
        if type(module) is nn.Linear
    ]
    return [*maps, ((model, "to_logits"), model.output_matrix, None)]


def _packed_copies(model: "GPT", rows: int) -> list[Map]:
    """The maps from laid-out copies, for inputs of so many rows; made once a state of weights."""
    maps = _maps(model)
    state = rows, written_state(weight for _, weight, _ in maps)
    kept = _KEPT.get(model)
    if kept is None or kept[0] != state:
        kept = state, [_lay_out(weight, bias, rows) for _, weight, bias in maps]
        _KEPT[model] = kept
    return kept[1]


def written_state(weights: Iterable[Tensor]) -> Written:
    """Where each weight lies and how often it was written into (0 if made for inference alone).

    While this stays the same, so do the weights, and what was computed from them can be kept.
    """
    return tuple((w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights)


def _lay_out(weight: Tensor, bias: Tensor | None, rows: int) -> Map:
    laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows)
    product = torch.ops.mkldnn._linear_pointwise
    return lambda x: product(x, laid_out, bias, "none", [], "")
