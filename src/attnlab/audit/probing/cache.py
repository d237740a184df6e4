"""The key/value cache of anyone's module: it decodes a text in chunks.

Either a method `cached(chunks)`, or the usual form: forward takes the cache under one of
CACHE_NAMES and returns it as an attribute, a key, or the second item of a tuple.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.probing.call_convention import POSITION_NAMES
from attnlab.audit.probing.output import extract_logits
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


def module_cache(module: nn.Module, name: str) -> Cache | None:
    """The logits of consecutive chunks; None where forward takes no cache."""
    step = getattr(module, "cached", None)
    if callable(step):
        return step  # pyright: ignore[reportReturnType]
    try:
        known = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return None
    argument = next((argument for argument in CACHE_NAMES if argument in known), None)
    if argument is None:
        return None
    position_argument = next((argument for argument in POSITION_NAMES if argument in known), None)
    more = {"use_cache": True} if "use_cache" in known else {}

    def cache(chunks: Sequence[Tensor]) -> list[Tensor]:
        past, done, logits = None, 0, []
        for chunk in chunks:
            n = chunk.shape[1]
            at = (
                {}
                if position_argument is None
                else {position_argument: torch.arange(done, done + n).expand_as(chunk)}
            )
            output = module(chunk, **{argument: past}, **more, **at)
            past, done = _returned_cache(output, argument), done + n
            logits.append(extract_logits(output, chunk, name))
        return logits

    return cache


def _returned_cache(output: Any, argument: str) -> Any:
    """The cache that a forward returned, for the next chunk."""
    for name in (argument, *CACHE_NAMES):
        inner = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if inner is not None:
            return inner
    if isinstance(output, tuple | list) and len(output) > 1 and output[1] is not None:
        return output[1]
    raise UsageError("its forward returns no cache")
