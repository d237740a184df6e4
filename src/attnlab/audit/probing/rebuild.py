"""A second model of the same class that is given the weights of the first, as after a load.

Possible where the constructor needs nothing, or nothing but the settings that the model carries.
What differs between the two is not among the saved weights.
"""

import copy
import inspect
from typing import Any

import torch
from torch import nn

from attnlab.core.errors import UsageError

SETTINGS = ("config", "cfg", "args", "conf", "settings")
LARGEST = 20_000_000  # parameters


def can_rebuild(module: nn.Module) -> bool:
    """Whether its constructor can be called, and the weights fit what it makes."""
    try:
        rebuild(module)
    except Exception:  # anyone's constructor
        return False
    return True


def rebuild(module: nn.Module) -> nn.Module:
    """The second model."""
    arguments = _arguments(module)
    if arguments is None or sum(p.numel() for p in module.parameters()) > LARGEST:
        raise UsageError("it needs more than its settings to be made")
    with torch.random.fork_rng(devices=[]):
        torch.seed()  # what is drawn in the constructor is drawn anew
        again = type(module)(*arguments)
    for item, like in zip(again.parameters(), module.parameters(), strict=True):
        item.data = item.data.to(like.dtype)
    again.load_state_dict(copy.deepcopy(module.state_dict()))
    return again.train(module.training)


def _arguments(module: nn.Module) -> list[Any] | None:
    """Of the constructor: none at all, or the settings alone."""
    if isinstance(module, torch.jit.ScriptModule) or type(module).__module__.startswith("torch."):
        return None
    try:
        known = list(inspect.signature(type(module)).parameters.values())
    except (TypeError, ValueError):
        return None
    if not known:
        return []
    (first, *more) = known
    if any(p.default is p.empty for p in more) or first.kind is first.VAR_KEYWORD:
        return None
    if first.name in SETTINGS and hasattr(module, first.name):
        return [copy.deepcopy(getattr(module, first.name))]
    return None
