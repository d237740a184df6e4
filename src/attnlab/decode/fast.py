"""The shortest exact way to decode a model token by token, where there is one of ours.

A Llama of transformers in our own steps; a GPT of ours on a GPU as a recorded graph, of our own
kernels where they apply. What was recorded is kept for the next text of the same shape.
"""

from typing import Any
from weakref import WeakKeyDictionary

from attnlab.decode.fused import FusedGPT, why_not_fused
from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel
from attnlab.models.llama import LlamaSteps, is_llama
from attnlab.models.static import StaticGPT, why_not_static

ROUND = 64  # lengths of a recording, so that texts of nearly the same length share it
Shape = tuple[int, int, tuple[int, ...]]  # batch, length, where the weights lie
_SPARE: "WeakKeyDictionary[GPT, tuple[Shape, StaticGPT]]" = WeakKeyDictionary()


def fast_stepper(model: Any, batch: int, length: int) -> LlamaSteps | StaticGPT | None:
    """Something with `start`, `step` and `take`, or None: the model's own cache then has to do."""
    if isinstance(model, HubModel) and is_llama(model.library):
        return LlamaSteps(model.library, batch, length)
    if isinstance(model, GPT) and model.embedding.is_cuda and why_not_static(model) is None:
        return recorded(model, batch, length)
    return None


def recorded(model: GPT, batch: int, length: int) -> StaticGPT:
    """Steps of this shape: those kept from before, or new ones."""
    length = min(model.context, -(-length // ROUND) * ROUND)
    shape, spare = _SPARE.pop(model, (None, None))  # nobody else has it while it is in use
    if spare is not None and shape == _shape(model, batch, length):
        spare.model = model
        return spare
    kind = StaticGPT if why_not_fused(model) else FusedGPT
    return kind(model, batch, length)


def give_back(stepper: Any) -> None:
    """A stepper that is done: its recording serves the next text of that shape."""
    if isinstance(stepper, StaticGPT) and stepper.recorded is not None:
        model, stepper.model = stepper.model, None  # pyright: ignore[reportAttributeAccessIssue]
        _SPARE[model] = (_shape(model, stepper.batch, stepper.length), stepper)


def _shape(model: GPT, batch: int, length: int) -> Shape:
    """A recording reads the weights where they lay: values may change, places may not."""
    return batch, length, tuple(p.data_ptr() for p in model.parameters())
