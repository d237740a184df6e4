"""A digest of content, whatever type holds it: equal content has an equal digest.

It takes tensors, arrays, sequences, mappings, dataclasses, text and numbers. With `loose`, case
and white space of texts do not count: to find rows that are almost duplicates.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def digest(value: Any, *, loose: bool = False) -> str:
    """SHA-256 of the content; a list, a tuple and an array of the same numbers are equal."""
    found = hashlib.sha256()
    _feed(found, value, loose)
    return found.hexdigest()


def to_list(values: Any) -> list[Any]:
    """The items of a sequence, an array or a tensor, as Python's own numbers and texts."""
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _feed(found: Any, value: Any, loose: bool) -> None:
    if hasattr(value, "detach"):  # a tensor, without importing torch
        value = value.detach().cpu()
        value = (value.double() if value.is_floating_point() else value).numpy()
    if isinstance(value, str | bytes):
        text = " ".join(value.casefold().split()) if loose and isinstance(value, str) else value
        raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        found.update(b"s%d:" % len(raw) + raw)
    elif isinstance(value, Mapping):
        found.update(b"m%d:" % len(value))
        for key in sorted(value, key=repr):
            _feed(found, str(key), False)
            _feed(found, value[key], loose)
    elif is_dataclass(value) and not isinstance(value, type):
        _feed(found, {f.name: getattr(value, f.name) for f in fields(value)}, loose)
    else:
        _feed_numbers(found, value, loose)


def _feed_numbers(found: Any, value: Any, loose: bool) -> None:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        # small whole numbers are exact in float64: int32 and int64 rows of ids are equal
        found.update(f"a{value.shape}:".encode() + np.ascontiguousarray(value, float).tobytes())
    elif isinstance(value, bool | int | float | np.generic):
        found.update(f"n{float(value)!r};".encode())
    elif isinstance(value, Sequence | np.ndarray):
        if len(value) and all(isinstance(x, bool | int | float | np.number) for x in value):
            _feed_numbers(found, np.asarray(value, float), loose)
            return
        found.update(b"l%d:" % len(value))
        for item in value:
            _feed(found, item, loose)
    else:
        found.update(f"o{value!r};".encode())
