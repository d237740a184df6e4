"""Every causal-LM class of the installed transformers, small enough for a laptop.

    for entry in tiny_models():
        model = entry.build()          # float32, eval, the same weights each time

A default configuration is shrunk by rule: SIZES names the settings that mean a width, a number of
heads, a window …; lists with one entry a layer keep the first layer of each kind. Where the rule is
not enough, zoo_settings.OVERRIDES says what and why; what cannot run as a language model on ids
is listed with its reason in zoo_settings.WHY_NOT and never dropped.
"""

import copy
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import transformers
from torch import nn
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PretrainedConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from zoo_settings import (
    LAYER_COUNTS,
    NOT_CAUSAL,
    OVERRIDES,
    PARTS,
    SIZES,
    VOCABULARY,
    WHY_NOT,
)

from attnlab.core.seeds import Seed

Settings = dict[str, Any]
# unset by default, and then a division by None
NEEDED = ("head_dim", "num_experts_per_tok")


@dataclass(frozen=True)
class Entry:
    """One row of transformers' table: `why_not` is "" where `build()` gives a model that runs.

    `not_causal` says, in one line, why the class sees the future on purpose; "" for the others.
    """

    model_type: str
    class_name: str
    build: Callable[[], nn.Module]
    why_not: str
    not_causal: str = ""


def tiny_models(only: tuple[str, ...] | None = None) -> Iterator[Entry]:
    """All model types in alphabetic order, or those named in `only`; nothing is built yet."""
    table = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    unknown = set(only or ()) - set(table)
    if unknown:
        raise ValueError(f"transformers has no causal LM of type {', '.join(sorted(unknown))}")
    for kind in sorted(only or table):
        yield Entry(
            kind, table[kind], partial(build, kind), WHY_NOT.get(kind, ""), NOT_CAUSAL.get(kind, "")
        )


def build(model_type: str) -> nn.Module:
    """The class that AutoModelForCausalLM picks, random weights from a fixed seed, eval mode."""
    config = tiny_config(model_type)
    with torch.random.fork_rng(devices=[]), quiet():
        torch.default_generator.manual_seed(Seed(0).child("zoo", model_type).number)
        if model_type in PARTS:  # the automatic class hands over the whole, the class wants a part
            chosen = getattr(transformers, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[model_type])
            model = chosen._from_config(getattr(config, PARTS[model_type]), dtype=torch.float32)
        else:
            model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        wake(model)
    return model.eval()


@torch.no_grad()
def wake(model: nn.Module) -> None:
    """p ← p + N(0, 0.1²) where all entries of a parameter are equal.

    Gates, biases and scales start at 0 or 1. A gate at 0 shuts its branch, and a leak through a
    shut branch would be missed.
    """
    for p in model.parameters():
        if p.is_floating_point() and p.numel() and bool((p == p.flatten()[0]).all()):
            p.add_(0.1 * torch.randn_like(p))


def tiny_config(model_type: str) -> PretrainedConfig:
    """The default configuration of `model_type`, shrunk, with the overrides of its own."""
    kind, own = CONFIG_MAPPING[model_type], copy.deepcopy(OVERRIDES.get(model_type, {}))
    with quiet():
        return kind(**merged(shrunk(kind(**own.pop("_default", {}))), own))


def shrunk(config: PretrainedConfig) -> Settings:
    """Only what changes: everything else is derived anew by the class from the small values."""
    full, small = config.to_dict(), {}
    for key, value in full.items():
        inner = vars(config).get(key)
        if isinstance(inner, PretrainedConfig):
            small[key] = shrunk(inner)
            if "model_type" in value:
                small[key]["model_type"] = value["model_type"]
        elif key in SIZES and (value is not None or key in NEEDED):
            small[key] = min(value, SIZES[key]) if isinstance(value, int) else SIZES[key]
        elif key.endswith(("token_id", "token_index")):
            small.update(token(key, value))
    if full.get("is_decoder") is False:
        small["is_decoder"] = True  # BERT and its kin are encoders unless told
    if "qk_rope_head_dim" in full and full.get("head_dim") == full["qk_rope_head_dim"]:
        small["head_dim"] = SIZES["qk_rope_head_dim"]  # the width that is rotated
    return small | layers(full) | grouped(full)


def token(key: str, value: Any) -> Settings:
    """Words keep their id where it fits; images, audio and the like lie outside the vocabulary."""
    if not isinstance(value, int) or value < VOCABULARY:
        return {} if not isinstance(value, list) else {key: None}
    words = ("pad_", "bos_", "eos_", "decoder_start_", "cls_", "sep_", "mask_", "forced_eos_")
    return {key: 0 if key.startswith(words) else VOCABULARY + value % 89}


def layers(full: Settings) -> Settings:
    """Layer i stays when one of the per-layer lists has a value there that is not kept yet.

    At least two stay. A setting without such lists gets three layers.
    """
    count_key = next((k for k in LAYER_COUNTS if isinstance(full.get(k), int)), None)
    if count_key is None:
        return {}
    total = full[count_key]
    lists = {k: v for k, v in full.items() if isinstance(v, list) and len(v) == total}
    lists = {k: v for k, v in lists.items() if v != list(range(total))}  # those are indices
    if not lists:
        return {k: 3 for k in LAYER_COUNTS if isinstance(full.get(k), int)}
    kept: list[int] = []
    seen: set[tuple[str, Any]] = set()
    for i in range(total):
        here = {(k, v[i]) for k, v in lists.items()}
        if here - seen:
            kept.append(i)
            seen |= here
    kept = sorted({*kept, *range(2)}) if len(kept) < 2 else kept
    picked = {k: [v[i] for i in kept] for k, v in lists.items()}
    return {count_key: len(kept), **picked}


def grouped(full: Settings) -> Settings:
    """Keys a query: as many as heads, one, or two, like the default."""
    heads, keys = full.get("num_attention_heads"), full.get("num_key_value_heads")
    if not isinstance(heads, int) or "num_key_value_heads" not in full:
        return {}
    if keys in (1, heads):
        return {"num_key_value_heads": 1 if keys == 1 else SIZES["num_attention_heads"]}
    return {"num_key_value_heads": 2}


def merged(settings: Settings, own: Settings) -> Settings:
    """`own` wins; nested settings are merged key by key."""
    result = dict(settings)
    for key, value in own.items():
        inner = settings.get(key)
        both = isinstance(value, dict) and isinstance(inner, dict)
        result[key] = merged(dict(inner or {}), value) if both else value
    return result


@contextmanager
def quiet() -> Iterator[None]:
    """transformers remarks on odd sizes and missing kernels; both are meant here."""
    log = logging.getLogger("transformers")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
