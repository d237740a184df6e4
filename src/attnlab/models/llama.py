"""Our GPT as Llama writes it: the same tensors under other names, maps of one input side by side.

blocks.0.attention.project.qkv   <->  model.layers.0.self_attn.q_proj, k_proj and v_proj
blocks.0.feed_forward.wide       <->  model.layers.0.mlp.gate_proj and up_proj
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.models.config import GPTConfig
from attnlab.parts.mlp import Swiglu
from attnlab.parts.norm import Rms
from attnlab.parts.position import Rotary, RotaryLlama

TOP = {"embedding": "model.embed_tokens.weight", "norm.weight": "model.norm.weight"}
HEAD = {"head": "lm_head.weight"}
NORMS = {"attention_norm": "input_layernorm", "feed_forward_norm": "post_attention_layernorm"}
MAPS = {
    "attention.project.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention.merge.out": ("self_attn.o_proj",),
    "feed_forward.wide": ("mlp.gate_proj", "mlp.up_proj"),
    "feed_forward.out": ("mlp.down_proj",),
}
LLAMA3 = {  # our settings of rotary-llama, and Llama's names of them
    "factor": "factor",
    "low": "low_freq_factor",
    "high": "high_freq_factor",
    "original": "original_max_position_embeddings",
}
SILU = ("silu", "swish")


def llama_settings(config: GPTConfig) -> dict[str, Any]:
    """The config.json of the same model in Llama's words."""
    dims, position = config.dims, config.position
    assert isinstance(position, Rotary.Config)
    return {
        "vocab_size": config.vocab,
        "max_position_embeddings": config.block,
        "num_hidden_layers": config.layers,
        "hidden_size": config.d_model,
        "num_attention_heads": config.heads,
        "num_key_value_heads": dims.kv_heads,
        "head_dim": dims.d_head,
        "intermediate_size": dims.d_mlp,
        "rms_norm_eps": config.norm_eps,
        "rope_parameters": _rope_parameters(position),
        "attention_bias": config.bias,
        "mlp_bias": config.bias,
        "hidden_act": "silu",
        "tie_word_embeddings": config.tie,
    }


def config_from_llama(settings: Mapping[str, Any]) -> GPTConfig:
    """The GPTConfig of a Llama; one with other arithmetic than ours is refused."""
    if settings.get("hidden_act", "silu") not in SILU:
        raise UsageError(f"a Llama with activation {settings['hidden_act']!r} is not of our parts")
    bias = bool(settings.get("attention_bias", False))
    if bias != bool(settings.get("mlp_bias", False)):
        raise UsageError("a Llama with biases in some linear maps only is not made of our parts")
    try:
        heads, width = settings["num_attention_heads"], settings["hidden_size"]
        d_head = settings.get("head_dim") or width // heads
        return GPTConfig(
            vocab=settings["vocab_size"],
            block=settings["max_position_embeddings"],
            layers=settings["num_hidden_layers"],
            heads=heads,
            d_model=width,
            position=_position(settings),
            tie=settings.get("tie_word_embeddings", False),
            bias=bias,
            norm_eps=float(settings.get("rms_norm_eps", 1e-6)),
            norm=Rms.Config(),
            mlp=Swiglu.Config(),
            kv_heads=settings.get("num_key_value_heads") or heads,
            d_head=None if d_head * heads == width else d_head,
            d_mlp=settings["intermediate_size"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError(f"not the settings of a Llama: {error}") from None


def _rope_parameters(position: Rotary.Config) -> dict[str, Any]:
    if not isinstance(position, RotaryLlama.Config) or position.factor == 1:
        return {"rope_type": "default", "rope_theta": position.base}
    values = {theirs: getattr(position, ours) for ours, theirs in LLAMA3.items()}
    return {"rope_type": "llama3", "rope_theta": position.base, **values}


def _position(settings: Mapping[str, Any]) -> RotaryLlama.Config:
    rope = settings.get("rope_parameters") or settings.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "llama3"):
        raise UsageError(f"a Llama with rope_type {kind!r} is not made of our parts")
    base = float(rope.get("rope_theta", settings.get("rope_theta", 10_000.0)))
    if kind == "default":
        return RotaryLlama.Config(base=base)
    values: dict[str, Any] = {ours: float(rope[theirs]) for ours, theirs in LLAMA3.items()}
    return RotaryLlama.Config(base=base, **values | {"original": int(values["original"])})


def names(config: GPTConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Our name, and Llama's names of what it holds one below the other."""
    for ours, theirs in {**TOP, **({} if config.tie else HEAD)}.items():
        yield ours, (theirs,)
    for layer in range(config.layers):
        here, there = f"blocks.{layer}", f"model.layers.{layer}"
        for ours, theirs in NORMS.items():
            yield f"{here}.{ours}.weight", (f"{there}.{theirs}.weight",)
        for kind in ("weight", "bias") if config.bias else ("weight",):
            for ours, maps in MAPS.items():
                yield f"{here}.{ours}.{kind}", tuple(f"{there}.{name}.{kind}" for name in maps)


def to_llama(state: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """Our tensors under Llama's names."""
    dims, tensors = config.dims, {}
    rows = {
        "qkv": [dims.heads * dims.d_head, *[dims.kv_heads * dims.d_head] * 2],
        "wide": [dims.d_mlp] * 2,
    }
    for ours, theirs in names(config):
        tensor = state[ours]
        sizes = rows[ours.split(".")[-2]] if len(theirs) > 1 else [len(tensor)]
        for name, piece in zip(theirs, tensor.split(sizes), strict=True):
            tensors[name] = piece.contiguous()
    return tensors


def from_llama(state: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """Llama's tensors under our names; those that stand alone are not copied."""
    tensors = {}
    for ours, theirs in names(config):
        if absent := [name for name in theirs if name not in state]:
            raise IntegrityError(f"the weights have no {absent[0]}")
        pieces = [state[name] for name in theirs]
        tensors[ours] = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
    return tensors
