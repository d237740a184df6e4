"""A GPT or a Perceiver from the JSON that its configuration wrote."""

from collections.abc import Mapping
from typing import Any

import torch

from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.perceiver import Perceiver, PerceiverConfig


def model_from_json(values: Mapping[str, Any], generator: torch.Generator) -> GPT | Perceiver:
    """The model with fresh weights; what has latents is a Perceiver."""
    if "latents" in values:
        return Perceiver(PerceiverConfig.from_json(values), generator)
    return GPT(GPTConfig.from_json(values), generator)
