"""A second model of the same class that loads the weights of the first, as from a checkpoint.

Possible where the constructor needs no argument, or only a config that the model carries. Whatever
differs between the two models is not among the saved weights.
"""

import copy
import inspect
from typing import Any

import torch
from torch import nn

from attnlab.core.errors import UsageError

CONFIG_NAMES = ("config", "cfg", "args", "conf", "settings")
LARGEST = 20_000_000  # parameters


def can_rebuild(module: nn.Module) -> bool:
    """Whether its constructor can be called and the new model takes the weights."""
    try:
        rebuild(module)
    except Exception:  # anyone's constructor
        return False
    return True


def rebuild(module: nn.Module) -> nn.Module:
    """Construct the class again and load the weights; UsageError where that is not possible."""
    arguments = _arguments(module)
    if arguments is None or sum(p.numel() for p in module.parameters()) > LARGEST:
        raise UsageError("its constructor needs more than its config")
    with torch.random.fork_rng(devices=[]):
        torch.seed()  # the constructor must not draw the same weights
        second = type(module)(*arguments)
    for item, like in zip(second.parameters(), module.parameters(), strict=True):
        item.data = item.data.to(like.dtype)
    second.load_state_dict(copy.deepcopy(module.state_dict()))
    return second.train(module.training)


def _arguments(module: nn.Module) -> list[Any] | None:
    """Arguments for the constructor: none, or the config; None where others are required."""
    if isinstance(module, torch.jit.ScriptModule) or type(module).__module__.startswith("torch."):
        return None
    try:
        parameters = list(inspect.signature(type(module)).parameters.values())
    except (TypeError, ValueError):
        return None
    if not parameters:
        return []
    (first, *more) = parameters
    if any(p.default is p.empty for p in more) or first.kind is first.VAR_KEYWORD:
        return None
    if first.name in CONFIG_NAMES and hasattr(module, first.name):
        return [copy.deepcopy(getattr(module, first.name))]
    return None
