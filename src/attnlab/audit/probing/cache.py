"""The cache of anyone's module: chunks of a text, what was kept going from one to the next.

A method `cached(chunks)`, or the usual form: forward takes what was kept under one of NAMES, and
gives it back as an attribute, a key, or the second part of a tuple.
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
    """None where forward takes nothing that could be kept."""
    step = getattr(module, "cached", None)
    if callable(step):
        return step  # pyright: ignore[reportReturnType]
    try:
        known = inspect.signature(module.forward).parameters
    except (TypeError, ValueError):
        return None
    word = next((word for word in CACHE_NAMES if word in known), None)
    if word is None:
        return None
    place = next((word for word in POSITION_NAMES if word in known), None)
    more = {"use_cache": True} if "use_cache" in known else {}

    def cache(chunks: Sequence[Tensor]) -> list[Tensor]:
        kept, done, said = None, 0, []
        for chunk in chunks:
            n = chunk.shape[1]
            at = {} if place is None else {place: torch.arange(done, done + n).expand_as(chunk)}
            found = module(chunk, **{word: kept}, **more, **at)
            kept, done = _kept(found, word), done + n
            said.append(extract_logits(found, chunk, name))
        return said

    return cache


def _kept(found: Any, word: str) -> Any:
    """What the next chunk is to be given."""
    for name in (word, *CACHE_NAMES):
        inner = found.get(name) if isinstance(found, Mapping) else getattr(found, name, None)
        if inner is not None:
            return inner
    if isinstance(found, tuple | list) and len(found) > 1 and found[1] is not None:
        return found[1]
    raise UsageError("it gives no cache back")
