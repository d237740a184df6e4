"""The scores of every attention in a forward pass, as they enter the softmax, mask included.

Calls of softmax and of torch's fused attention are intercepted while the model runs; the scores
that a fused call never stores are computed beside it.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnlab.audit.registry import NotApplicable

if TYPE_CHECKING:
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.subject import Subject

SOFTMAX = (
    torch.softmax,
    functional.softmax,
    Tensor.softmax,
    torch.log_softmax,
    functional.log_softmax,
    Tensor.log_softmax,
)
BY_HAND = (torch.exp, Tensor.exp)  # of scores: a softmax written out
FUSED = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


class RecordScores(TorchFunctionMode):
    """`scores` collects tensors (…, length, length) in the order of the calls.

    `by_hand`: also what enters an exponential, as in a softmax written out.
    """

    def __init__(self, length: int, *, by_hand: bool = False) -> None:
        super().__init__()
        self.length, self.scores = length, list[Tensor]()
        self.fused = 0  # calls of fused attention, whatever it attends to
        self.functions = (*SOFTMAX, *BY_HAND) if by_hand else SOFTMAX

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func in self.functions and args and isinstance(args[0], Tensor):
            self._record(args[0])
        elif func is functional.scaled_dot_product_attention:
            self.fused += 1
            arguments = {**dict(zip(FUSED, args, strict=False)), **given}
            if arguments["query"].shape[-2] == arguments["key"].shape[-2] == self.length:
                self._record(fused_scores(arguments))
        return func(*args, **given)

    def _record(self, scores: Tensor) -> None:
        square = scores.ndim >= 2 and scores.shape[-2:] == (self.length, self.length)
        if square and scores.is_floating_point():
            self.scores.append(scores.detach())


def fused_scores(arguments: dict[str, Any]) -> Tensor:
    """scale · q kᵀ + mask, of a fused call."""
    q, k, mask = arguments["query"], arguments["key"], arguments.get("attn_mask")
    if k.shape[-3] != q.shape[-3]:  # grouped queries
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], dim=-3)
    scores = q @ k.transpose(-2, -1) * (arguments.get("scale") or q.shape[-1] ** -0.5)
    n = scores.shape[-1]
    if arguments.get("is_causal"):
        later = torch.ones(n, n, dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, -torch.inf)
    return scores + mask


def attention_scores(subject: "Subject", probe: "Probe", *, by_hand: bool = False) -> list[Tensor]:
    """The scores of every attention on two short texts; NotApplicable where there are none."""
    length = probe.short_length(subject)
    with RecordScores(length, by_hand=by_hand) as recorded:
        subject.logits(probe.rows(subject, length, rows=2))
    if not recorded.scores:
        raise NotApplicable("no softmax over positions was seen")
    return recorded.scores
