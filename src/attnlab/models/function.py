"""Anyone's function from ids to logits, as a language model: a tensor, a tuple, or `.logits`."""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.models.protocol import Ids, Logits, Map, PaddingMask

TRUE_AT_PADDING = ("key_padding_mask", "hidden")
MASKS = ("attention_mask", "mask", *TRUE_AT_PADDING)  # names under which padding may be passed
UNKNOWN_CONTEXT = 1 << 20


class FunctionModel:
    """A function whose vocabulary is found, when it is needed, by asking about one id.

    An audit does not need it: there the function may be a classifier, with one answer per row.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name = function, name
        self.device = "cpu"
        self.context = UNKNOWN_CONTEXT
        if isinstance(function, torch.nn.Module):
            function.eval()
        try:
            known = inspect.signature(getattr(function, "forward", function)).parameters
        except (TypeError, ValueError):
            known = {}
        self.mask = next((word for word in MASKS if word in known), None)
        self._vocabulary: int | None = None

    @property
    def vocabulary(self) -> int:
        """How many tokens its logits are over."""
        if self._vocabulary is None:
            self._vocabulary = int(self.logits(torch.zeros(1, 1, dtype=torch.long)).shape[-1])
        return self._vocabulary

    def to(self, device: str) -> "FunctionModel":
        """Ids will be sent there; the function's own tensors are its own business."""
        self.device = device
        return self

    @torch.no_grad()
    def logits(self, ids: Ids, key_padding_mask: PaddingMask = None) -> Logits:
        """The function's logits, out of a tuple or an object with `.logits`."""
        more: dict[str, Tensor] = {}
        if self.mask is not None and key_padding_mask is not None:
            key_padding_mask = key_padding_mask.to(self.device)
            is_padding = self.mask in TRUE_AT_PADDING
            more[self.mask] = key_padding_mask if is_padding else (~key_padding_mask).long()
        try:
            answer = self.function(ids.to(self.device), **more)
        except Exception as error:
            raise UsageError(f"{self.name}: {type(error).__name__}: {error}") from error
        answer = getattr(answer, "logits", answer)
        answer = answer[0] if isinstance(answer, tuple | list) else answer
        if not isinstance(answer, Tensor) or answer.ndim != 3 or answer.shape[:2] != ids.shape:
            shape = tuple(getattr(answer, "shape", ())) or type(answer).__name__
            raise UsageError(f"{self.name}: must give logits (batch, length, vocabulary): {shape}")
        return answer

    def attentions(self, ids: Ids) -> list[Map]:
        """Refused: a function shows no attention maps."""
        raise UsageError(f"{self.name} is a function: it shows no attention maps")
