"""A second model of the same class that loads the weights of the first, as from a checkpoint.

Possible where the constructor needs no argument, or only a config that the model carries. Whatever
differs between the two models is not among the saved weights.
"""

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from attnlab.audit.registry import describe_error
from attnlab.core.errors import UsageError

CONFIG_NAMES = ("config", "cfg", "args", "conf", "settings")
LARGEST = 20_000_000  # parameters


def why_not_rebuilt(module: nn.Module) -> str:
    """The reason why `rebuild` fails; '' where it does not."""
    try:
        rebuild(module)
    except UsageError as reason:
        return str(reason)
    except Exception as error:  # anyone's constructor
        return f"building a second one raised {describe_error(error)}"
    return ""


def rebuild(module: nn.Module) -> nn.Module:
    """Construct the class again and load the weights; UsageError where that is not possible."""
    size = sum(p.numel() for p in module.parameters())
    if size > LARGEST:
        raise UsageError(f"it has {size:,} parameters, and a second one is built up to {LARGEST:,}")
    arguments = _arguments(module)
    with torch.random.fork_rng(devices=[]):
        torch.seed()  # the constructor must not draw the same weights
        second = type(module)(*arguments)
    saved = copy.deepcopy(module.state_dict())
    if difference := _first_difference(saved, second.state_dict()):
        raise UsageError(f"a second model of its class {difference}")
    for item, like in zip(second.parameters(), module.parameters(), strict=True):
        item.data = item.data.to(like.dtype)
    second.load_state_dict(saved)
    return second.train(module.training)


def _first_difference(saved: Mapping[str, Any], built: Mapping[str, Any]) -> str:
    """The first tensor that one of the two lacks, or that has another shape; '' where none does."""
    for name in [*saved, *built]:
        if name not in built:
            return f"has no tensor {name!r}, which this one saves"
        if name not in saved:
            return f"has a tensor {name!r}, which this one does not save"
        shapes = [tuple(getattr(side[name], "shape", ())) for side in (built, saved)]
        if shapes[0] != shapes[1]:
            return f"has {name!r} of shape {shapes[0]}, this one of shape {shapes[1]}"
    return ""


def _arguments(module: nn.Module) -> list[Any]:
    """Arguments for the constructor: none, or the config; UsageError where others are required."""
    if isinstance(module, torch.jit.ScriptModule) or type(module).__module__.startswith("torch."):
        raise UsageError(f"{type(module).__name__} does not keep the arguments of its constructor")
    try:
        parameters = list(inspect.signature(type(module)).parameters.values())
    except (TypeError, ValueError):
        raise UsageError("the arguments of its constructor cannot be read") from None
    config = parameters[0].name if parameters else ""
    if config in CONFIG_NAMES and hasattr(module, config):
        given = [copy.deepcopy(getattr(module, config))]
        needed = [p.name for p in parameters[1:] if p.default is p.empty]
    else:  # what it was given instead of a default is not known either
        given, needed = [], [p.name for p in parameters]
    if needed:
        raise UsageError(f"its constructor takes {', '.join(needed)}, which it does not keep")
    return given
