"""Attention inside a forward pass: its scores recorded, or its weights replaced (an ablation).

Calls of softmax over positions and of torch's fused attention are intercepted while the model runs,
also inside nn.MultiheadAttention (torch leaves its fast path while calls are intercepted); the
scores that a fused call never stores are computed beside it. The model itself is not changed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from attnlab.audit.finding import NotApplicable

if TYPE_CHECKING:
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.subject import Subject

SOFTMAX = (torch.softmax, functional.softmax, Tensor.softmax)
LOG_SOFTMAX = (torch.log_softmax, functional.log_softmax, Tensor.log_softmax)
BY_HAND = (torch.exp, Tensor.exp)  # of scores: a softmax written out
FUSED_ATTENTION = functional.scaled_dot_product_attention
INSIDE_MULTIHEAD = {"softmax": functional.softmax, FUSED_ATTENTION.__name__: FUSED_ATTENTION}
FUSED = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


class _InterceptAttention(TorchFunctionMode):
    """Calls `on_scores` and `on_fused` for every attention over `length` positions."""

    functions: tuple[Callable[..., Any], ...] = SOFTMAX

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length
        self.fused = 0  # calls of fused attention, whatever it attends to

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        if func is functional.multi_head_attention_forward:
            with self._intercepting_inside():
                return func(*args, **given)
        output = func(*args, **given)
        if func in self.functions and args and isinstance(args[0], Tensor):
            scores = args[0]
            square = scores.ndim >= 2 and scores.shape[-2:] == (self.length, self.length)
            return self.on_scores(scores, output) if square else output
        if func is FUSED_ATTENTION:
            self.fused += 1
            arguments = fused_arguments(args, given)
            if arguments["query"].shape[-2] == arguments["key"].shape[-2] == self.length:
                return self.on_fused(arguments, output)
        return output

    @contextmanager
    def _intercepting_inside(self) -> Iterator[None]:
        """The whole of nn.MultiheadAttention is one call: replace the functions that it calls."""

        def intercepted(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *args, **kwargs: self.__torch_function__(function, (), args, kwargs)

        for name, function in INSIDE_MULTIHEAD.items():
            setattr(functional, name, intercepted(function))
        try:
            yield
        finally:
            for name, function in INSIDE_MULTIHEAD.items():
                setattr(functional, name, function)

    def on_scores(self, scores: Tensor, output: Tensor) -> Tensor:
        """What the softmax of these scores is to return, instead of `output`."""
        raise NotImplementedError

    def on_fused(self, arguments: dict[str, Any], output: Tensor) -> Tensor:
        """What a fused call is to return, instead of `output`."""
        raise NotImplementedError


class RecordScores(_InterceptAttention):
    """`scores` collects tensors (…, length, length) in the order of the calls, masks included.

    `by_hand`: also what enters an exponential, as in a softmax written out.
    """

    def __init__(self, length: int, *, by_hand: bool = False) -> None:
        super().__init__(length)
        self.scores = list[Tensor]()
        self.functions = (*SOFTMAX, *LOG_SOFTMAX, *(BY_HAND if by_hand else ()))

    def on_scores(self, scores: Tensor, output: Tensor) -> Tensor:
        """Keep floating-point scores."""
        self.scores += [scores.detach()] if scores.is_floating_point() else []
        return output

    def on_fused(self, arguments: dict[str, Any], output: Tensor) -> Tensor:
        """Keep the scores that the fused call does not store."""
        return self.on_scores(fused_scores(arguments), output)


class AblateAttention(_InterceptAttention):
    """`how`: "uniform" (equal weights on all visible positions) or "zero" (no weights)."""

    def __init__(self, length: int, how: str) -> None:
        super().__init__(length)
        self.how, self.calls = how, 0

    def on_scores(self, scores: Tensor, output: Tensor) -> Tensor:
        """The ablated weights."""
        return self._weights(scores).to(output.dtype)

    def on_fused(self, arguments: dict[str, Any], output: Tensor) -> Tensor:
        """The ablated weights times the values, repeated where query heads share them."""
        values = _repeat_heads(arguments["value"], arguments["query"])
        return (self._weights(fused_scores(arguments)) @ values).to(output.dtype)

    def _weights(self, scores: Tensor) -> Tensor:
        self.calls += 1
        if self.how == "zero":
            return torch.zeros_like(scores)
        visible = (scores > never(scores)).to(scores.dtype)
        return visible / visible.sum(dim=-1, keepdim=True).clamp_min(1)


def never(scores: Tensor) -> float:
    """A score this low stands for −∞, as the finite numbers of many masks do."""
    return torch.finfo(scores.dtype).min / 4


def fused_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call of fused attention by name."""
    return {**dict(zip(FUSED, args, strict=False)), **kwargs}


def fused_scores(arguments: dict[str, Any]) -> Tensor:
    """scale · q kᵀ + mask, of a fused call."""
    q, mask = arguments["query"], arguments.get("attn_mask")
    k = _repeat_heads(arguments["key"], q)
    scores = q @ k.transpose(-2, -1) * (arguments.get("scale") or q.shape[-1] ** -0.5)
    if arguments.get("is_causal"):
        later = torch.ones_like(scores, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, -torch.inf)
    return scores + mask


def _repeat_heads(x: Tensor, query: Tensor) -> Tensor:
    """Keys or values as often as query heads share them."""
    groups = query.shape[-3] // x.shape[-3]
    return x if groups == 1 else x.repeat_interleave(groups, dim=-3)


def attention_scores(subject: "Subject", probe: "Probe", *, by_hand: bool = False) -> list[Tensor]:
    """The scores of every attention on two short texts; NotApplicable where there are none."""
    length = probe.short_length(subject)
    with RecordScores(length, by_hand=by_hand) as recorded:
        subject.logits(probe.rows(subject, length, rows=2))
    if not recorded.scores:
        raise NotApplicable("no softmax over positions was seen")
    return recorded.scores
