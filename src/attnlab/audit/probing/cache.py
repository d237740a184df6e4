"""The key/value cache of anyone's module: it decodes a text in chunks.

Either a method `cached(chunks)`, or the usual form: forward takes the cache under one of
CACHE_NAMES and returns it as an attribute, a key, or the second item of a tuple.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.audit.probing.call_convention import POSITION_NAMES, first_known
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
    argument, position_argument = (
        first_known(CACHE_NAMES, known),
        first_known(POSITION_NAMES, known),
    )
    if argument is None:
        return None
    more = {"use_cache": True} if "use_cache" in known else {}

    def cache(chunks: Sequence[Tensor]) -> list[Tensor]:
        past, done, logits = None, 0, []
        for chunk in chunks:
            given: dict[str, Any] = {argument: past, **more}
            if position_argument is not None:
                positions = torch.arange(done, done + chunk.shape[1])
                given[position_argument] = positions.expand_as(chunk)
            output = module(chunk, **given)
            past, done = _returned_cache(output, argument), done + chunk.shape[1]
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
