"""Our GPT as GPT-2 writes it: the same tensors under other names, linear maps transposed.

blocks.0.attention.project.qkv.weight (out, in)  <->  transformer.h.0.attn.c_attn.weight (in, out)
"""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.models.config import GPTConfig

TOP = {
    "embedding": "transformer.wte.weight",
    "position.table": "transformer.wpe.weight",
    "norm.weight": "transformer.ln_f.weight",
    "norm.bias": "transformer.ln_f.bias",
}
BLOCK = {
    "attention_norm": "ln_1",
    "attention.project.qkv": "attn.c_attn",
    "attention.merge.out": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.wide": "mlp.c_fc",
    "feed_forward.out": "mlp.c_proj",
}
HEAD = {"head": "lm_head.weight"}
# Settings of GPT-2 that our blocks do not have, and the value that means "without"
WITHOUT = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
}
GELU_TANH = ("gelu_new", "gelu_pytorch_tanh")


def gpt2_settings(config: GPTConfig) -> dict[str, Any]:
    """The config.json of the same model in GPT-2's words."""
    return {
        "vocab_size": config.vocab,
        "n_positions": config.block,
        "n_embd": config.d_model,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.dims.d_mlp,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tie,
        "activation_function": "gelu_new",
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    }


def config_from_gpt2(settings: Mapping[str, Any]) -> GPTConfig:
    """The GPTConfig of a GPT-2; one with other arithmetic than ours is refused."""
    for name, value in WITHOUT.items():
        if settings.get(name, value) != value:
            raise UsageError(f"a GPT-2 with {name} = {settings[name]!r} is not made of our parts")
    gelu = settings.get("activation_function", "gelu_new")
    if gelu not in GELU_TANH:
        raise UsageError(f"a GPT-2 with activation {gelu!r} is not made of our parts")
    try:
        width = settings["n_embd"]
        inner = settings.get("n_inner") or 4 * width
        return GPTConfig(
            vocab=settings["vocab_size"],
            block=settings["n_positions"],
            layers=settings["n_layer"],
            heads=settings["n_head"],
            d_model=width,
            tie=settings.get("tie_word_embeddings", True),
            mlp_ratio=inner // width or 1,
            d_mlp=inner if inner % width else None,
            norm_eps=settings.get("layer_norm_epsilon", 1e-5),
        )
    except (KeyError, TypeError) as error:
        raise IntegrityError(f"not the settings of a GPT-2: {error}") from None


def names(config: GPTConfig) -> Iterator[tuple[str, str, bool]]:
    """Our name, GPT-2's name, and whether the tensor is stored transposed."""
    for ours, theirs in {**TOP, **({} if config.tie else HEAD)}.items():
        yield ours, theirs, False
    for layer in range(config.layers):
        for ours, theirs in BLOCK.items():
            there = f"transformer.h.{layer}.{theirs}"
            yield f"blocks.{layer}.{ours}.weight", f"{there}.weight", "ln_" not in theirs
            yield f"blocks.{layer}.{ours}.bias", f"{there}.bias", False


def to_gpt2(state: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """Our tensors under GPT-2's names."""
    return {
        theirs: (state[ours].T if turned else state[ours]).contiguous()
        for ours, theirs, turned in names(config)
    }


def from_gpt2(state: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    """GPT-2's tensors under our names; both `transformer.wte` and plain `wte` are understood."""
    tensors: dict[str, Tensor] = {}
    for ours, theirs, turned in names(config):
        tensor = state.get(theirs, state.get(theirs.removeprefix("transformer.")))
        if tensor is None:
            raise IntegrityError(f"the weights have no {theirs}")
        tensors[ours] = (tensor.T if turned else tensor).contiguous()
    return tensors
