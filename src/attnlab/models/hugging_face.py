"""A GPT to and from Hugging Face's folders.

    export(model, tokenizer.to_json(), folder)         load(folder)

A GPT of the default parts is written as GPT-2, one of Llama's parts as Llama, as everybody reads:
    AutoModelForCausalLM.from_pretrained(folder)
Any other is written as "attnlab-gpt", which importing this module makes known to transformers:
    import attnlab.models.hugging_face
    AutoModelForCausalLM.from_pretrained(folder)
Tensors come back bit for bit.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from tokenizers import Tokenizer
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    GenerationConfig,
    GenerationMixin,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.modeling_outputs import CausalLMOutput

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.files import read_json, write_bytes, write_json, write_text
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.models.config import SEAMS, GPTConfig
from attnlab.models.convert import gpt_from, gpt_with_weights
from attnlab.models.gpt import GPT
from attnlab.models.gpt2 import gpt2_settings, to_gpt2
from attnlab.models.hub import HubTokenizer
from attnlab.models.llama import llama_settings, to_llama
from attnlab.models.weights import SINGLE, read_weights

MODEL_TYPE = "attnlab-gpt"
KINDS = ("bos_token", "eos_token", "pad_token")
MARKERS = {  # what a token of this spelling is for
    "<START>": "bos_token",
    "<STOP>": "eos_token",
    "<UNK>": "unk_token",
    "<PAD>": "pad_token",
    "<|endoftext|>": "eos_token",
}


class AttnlabConfig(PreTrainedConfig):
    """`gpt` is GPTConfig.to_json(); the usual names beside it are for tools that look for them."""

    model_type = MODEL_TYPE

    def __init__(self, gpt: dict[str, Any] | None = None, **rest: Any) -> None:
        self.gpt = gpt or GPTConfig(vocab=2).to_json()
        config = GPTConfig.from_json(self.gpt)
        self.vocab_size, self.hidden_size = config.vocab, config.d_model
        self.num_hidden_layers, self.num_attention_heads = config.layers, config.heads
        self.max_position_embeddings = config.block
        super().__init__(**{**rest, "tie_word_embeddings": config.tie, "use_cache": False})


class AttnlabGPT(PreTrainedModel, GenerationMixin):
    """A GPT of any parts, as transformers wants a model to be; it decodes without a cache."""

    config_class = AttnlabConfig
    base_model_prefix = "gpt"

    def __init__(self, config: AttnlabConfig) -> None:
        super().__init__(config)
        own_config = GPTConfig.from_json(config.gpt)
        self.gpt = GPT(own_config, Seed(0).child("attnlab-gpt").torch_generator())
        self.post_init()
        self._drawn = True

    def _init_weights(self, module: torch.nn.Module) -> None:
        """GPT has drawn them; afterwards this is called only for weights that a file lacks."""
        tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        loaded = all(getattr(tensor, "_is_hf_initialized", False) for tensor in tensors)
        if getattr(self, "_drawn", False) and not loaded:
            raise IntegrityError(f"weights of {type(module).__name__} are missing from the file")

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        **rest: Any,
    ) -> CausalLMOutput:
        """Logits; with labels (already the inputs, shifted here) the mean loss too."""
        del rest  # caches and flags that this model has no use for
        key_padding_mask = None if attention_mask is None else attention_mask == 0
        logits = self.gpt(input_ids, key_padding_mask)
        loss: Any = None
        maps: Any = None
        if labels is not None:
            shifted = torch.nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORE)
            total, count = self.gpt.nll(input_ids, shifted, key_padding_mask)
            loss = total / count
        if output_attentions:
            maps = tuple(steps.weights for steps in self.gpt.steps(input_ids, key_padding_mask))
        return CausalLMOutput(loss=loss, logits=logits, attentions=maps)

    def prepare_inputs_for_generation(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, input_ids: Tensor, **kwargs: Any
    ) -> dict[str, Any]:
        """The whole text every time, its last `block` tokens at most.

        Named `kwargs`, for by that name transformers knows to ask `forward` what it takes.
        """
        last = slice(-self.gpt.context, None)
        mask = kwargs.get("attention_mask")
        return {
            "input_ids": input_ids[:, last],
            "attention_mask": None if mask is None else mask[:, last],
        }


AutoConfig.register(MODEL_TYPE, AttnlabConfig)
AutoModelForCausalLM.register(AttnlabConfig, AttnlabGPT)


def export(model: GPT, tokenizer: str | HubTokenizer | None, folder: Path) -> None:
    """Write config.json, model.safetensors, generation_config.json, README.md and the tokenizer.

    The tokenizer is the JSON of one of ours, or one that came with a model of Hugging Face.
    """
    state = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    markers = _markers(tokenizer, model.vocabulary)
    ids: dict[str, Any] = {f"{kind}_id": None for kind in KINDS}
    ids |= {f"{kind}_id": at for kind, (_, at) in markers.items() if f"{kind}_id" in ids}
    if model.config.is_gpt2:
        config: PreTrainedConfig = GPT2Config(**gpt2_settings(model.config), **ids)
        config.architectures = ["GPT2LMHeadModel"]
        state = to_gpt2(state, model.config)
    elif model.config.is_llama:
        config = LlamaConfig(**llama_settings(model.config), **ids)
        config.architectures = ["LlamaForCausalLM"]
        state = to_llama(state, model.config)
    else:
        config = AttnlabConfig(gpt=model.config.to_json(), **ids)
        config.architectures = ["AttnlabGPT"]
        state = {f"gpt.{name}": tensor.contiguous() for name, tensor in state.items()}
    config.dtype = model.embedding.dtype
    write_bytes(folder / SINGLE, save(state, metadata={"format": "pt"}))
    if isinstance(tokenizer, HubTokenizer):
        tokenizer.library.save_pretrained(folder)
    elif tokenizer is not None:
        write_text(folder / "tokenizer.json", tokenizer)
        settings = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "model_max_length": model.context,
            **{kind: word for kind, (word, _) in markers.items()},
        }
        write_json(folder / "tokenizer_config.json", settings)
    write_text(folder / "generation_config.json", GenerationConfig(**ids).to_json_string())
    write_text(folder / "README.md", _readme(model))
    write_text(folder / "config.json", config.to_json_string())


def load(folder: Path) -> GPT:
    """The GPT that `export` wrote, or anyone's GPT-2 or Llama; every tensor must be there."""
    settings = read_json(folder / "config.json")
    kind = settings.get("model_type") if isinstance(settings, dict) else None
    weights = read_weights(folder)
    try:
        if kind != MODEL_TYPE:
            return gpt_from(settings if kind else {}, weights)
        config = GPTConfig.from_json(settings.get("gpt") or {})
        return gpt_with_weights(
            config, {name.removeprefix("gpt."): t for name, t in weights.items()}
        )
    except (UsageError, IntegrityError) as error:
        raise type(error)(f"{folder}: {error}") from None


def _markers(tokenizer: str | HubTokenizer | None, vocabulary: int) -> dict[str, tuple[str, int]]:
    """bos_token, eos_token … -> spelling and id, as far as the tokenizer has them."""
    if tokenizer is None:
        return {}
    if isinstance(tokenizer, HubTokenizer):
        named = {kind: getattr(tokenizer.library, kind) for kind in KINDS}
        ids = {kind: getattr(tokenizer.library, f"{kind}_id") for kind in KINDS}
        return {kind: (word, ids[kind]) for kind, word in named.items() if word is not None}
    try:
        library = Tokenizer.from_str(tokenizer)
    except Exception as error:  # the library raises bare Exception
        raise IntegrityError(f"not a tokenizer: {str(error)[:200]}") from None
    if library.get_vocab_size() > vocabulary:
        size = library.get_vocab_size()
        raise UsageError(f"the tokenizer has {size} tokens, the model {vocabulary}")
    spelt = {token.content: at for at, token in library.get_added_tokens_decoder().items()}
    markers = {MARKERS[word]: (word, at) for word, at in spelt.items() if word in MARKERS}
    if "eos_token" in markers:
        markers.setdefault("pad_token", markers["eos_token"])  # masked and never scored
        markers.setdefault("bos_token", markers["eos_token"])
    return markers


def _readme(model: GPT) -> str:
    c = model.config
    ours = "import attnlab.models.hugging_face  # makes attnlab-gpt known\n"
    known = "" if c.is_gpt2 or c.is_llama else ours
    parts = ", ".join(f"{name} {getattr(c, name).to_json()['name']}" for name in SEAMS)
    return f"""\
# A GPT made with attnlab

{c.layers} layers, {c.heads} heads, width {c.d_model}, {c.block} positions, {c.vocab:,} tokens,
{model.parameter_count():,} parameters. Parts: {parts}.

```python
{known}from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("path/to/this/folder")
tokens = AutoTokenizer.from_pretrained("path/to/this/folder")
start = tokens("the king", return_tensors="pt", return_token_type_ids=False)
print(tokens.decode(model.generate(**start, max_new_tokens=20, do_sample=True)[0]))
```
"""
