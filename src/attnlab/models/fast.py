"""The shortest exact way to decode a model token by token, where there is one of ours.

A Llama of transformers in our own steps; a GPT of ours on a GPU as a recorded graph.
"""

from typing import Any

from attnlab.models.gpt import GPT
from attnlab.models.hub import HubModel
from attnlab.models.llama import LlamaSteps, is_llama
from attnlab.models.static import StaticGPT, why_not_static


def fast_stepper(model: Any, batch: int, length: int) -> LlamaSteps | StaticGPT | None:
    """Something with `start`, `step` and `take`, or None: the model's own cache then has to do."""
    if isinstance(model, HubModel) and is_llama(model.library):
        return LlamaSteps(model.library, batch, length)
    if isinstance(model, GPT) and model.embedding.is_cuda and why_not_static(model) is None:
        return StaticGPT(model, batch, length)
    return None
