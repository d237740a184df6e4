"""What anyone's module offers: decoding with its cache, and a second model of its class.

The cache is a method `cached(chunks)`, or has the usual form: forward takes it under one of
CACHE_NAMES and returns it as an attribute, a key, or the second item of a tuple. The second model
loads the weights of the first, as from a checkpoint; it can be built where the constructor needs no
argument, or only a config that the model carries. Whatever differs between the two models is not
among the saved weights.
"""

import copy
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.finding import describe_error
from attnlab.audit.probing.call_convention import (
    POSITION_NAMES,
    extract_logits,
    first_known,
    get_field,
)
from attnlab.audit.probing.subject import Cache
from attnlab.core.errors import UsageError

CACHE_NAMES = (
    "past_key_values",
    "past_key_value",
    "past_kv",
    "kv_cache",
    "past",
    "cache",
    "layer_past",
    "cache_params",
    "state",
)
CONFIG_NAMES = ("config", "cfg", "args", "conf", "settings")
LARGEST = 20_000_000  # parameters of a model that is built a second time


def module_cache(module: nn.Module, name: str) -> Cache | None:
    """The logits of consecutive chunks; None where forward takes no cache."""
    step = getattr(module, "cached", None)
    if callable(step):
        return step  # pyright: ignore[reportReturnType]
    try:
        known = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return None
    argument, positions = first_known(CACHE_NAMES, known), first_known(POSITION_NAMES, known)
    if argument is None:
        return None
    more = {"use_cache": True} if "use_cache" in known else {}

    def cache(chunks: Sequence[Tensor]) -> list[Tensor]:
        past, done, logits = None, 0, []
        for chunk in chunks:
            given: dict[str, Any] = {argument: past, **more}
            if positions is not None:
                given[positions] = torch.arange(done, done + chunk.shape[1]).expand_as(chunk)
            output = module(chunk, **given)
            past, done = _returned_cache(output, argument), done + chunk.shape[1]
            logits.append(extract_logits(output, chunk, name))
        return logits

    return cache


def _returned_cache(output: Any, argument: str) -> Any:
    """The cache that a forward returned, for the next chunk."""
    for name in (argument, *CACHE_NAMES):
        if (inner := get_field(output, name)) is not None:
            return inner
    if isinstance(output, tuple | list) and len(output) > 1 and output[1] is not None:
        return output[1]
    raise UsageError("its forward returns no cache")


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
