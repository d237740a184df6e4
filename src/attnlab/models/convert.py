"""Models of Hugging Face as our own GPT: the same weights in our parts.

gpt = gpt_from_library(library)          a GPT2LMHeadModel or LlamaForCausalLM in memory
gpt = gpt_from(settings, weights)        a config.json and its tensors
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.seeds import Seed
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.gpt2 import config_from_gpt2, from_gpt2
from attnlab.models.llama import config_from_llama, from_llama

READERS = {"gpt2": (config_from_gpt2, from_gpt2), "llama": (config_from_llama, from_llama)}
CLASSES = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM"}


def gpt_from(settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> GPT:
    """The GPT of a config.json of GPT-2 or Llama; tensors are shared where they fit as they are."""
    kind = settings.get("model_type")
    if kind not in READERS:
        known = " and ".join(READERS)
        raise UsageError(f"a {kind!r} model is not made of our parts, only {known} models are")
    read_config, read_weights = READERS[kind]
    config = read_config(settings)
    return gpt_with_weights(config, read_weights(weights, config))


def gpt_with_weights(config: GPTConfig, weights: Mapping[str, Tensor]) -> GPT:
    """A GPT that holds these tensors, in evaluation mode; each of its parameters must be there."""
    with torch.device("meta"):
        model = GPT(config, Seed(0).torch_generator())
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise IntegrityError(f"weights do not fit config.json: {error}") from None
    return model


def why_not_ours(library: Any) -> str | None:
    """Why a model of transformers cannot be made of our parts; None when it can."""
    kind = getattr(getattr(library, "config", None), "model_type", None)
    if CLASSES.get(str(kind)) != type(library).__name__:
        return f"{type(library).__name__} is neither {' nor '.join(CLASSES.values())}"
    try:
        READERS[str(kind)][0](library.config.to_dict())
    except (UsageError, IntegrityError) as error:
        return str(error)
    return None


def gpt_from_library(library: Any) -> GPT:
    """The same model in our parts, in evaluation mode."""
    if reason := why_not_ours(library):
        raise UsageError(reason)
    return gpt_from(library.config.to_dict(), library.state_dict()).eval()
