"""A random Llama of five narrow layers with a tokenizer of whole words, for runs of seconds.

Nothing is downloaded. What it writes means nothing: it exercises every step of a study.
"""

from collections.abc import Sequence
from typing import Any

import torch

from attnlab.core.seeds import Seed
from attnlab.models.hub import HubModel, HubTokenizer, quiet
from attnlab.models.trainable import redraw_weights

MARKS = ("<start>", "<end>", "<unk>")
TEMPLATE = (
    "{% for m in messages %}<start>{{ m['content'] }}<end>{% endfor %}"
    "{% if add_generation_prompt %}<start>{% endif %}"
)
SIZE = {
    "hidden_size": 24,
    "intermediate_size": 48,
    "num_hidden_layers": 5,
    "num_attention_heads": 3,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
}


def tiny_model(texts: Sequence[str], seed: Seed, device: str = "cpu") -> HubModel:
    """A tiny Llama that knows the words of these texts."""
    with quiet():
        tokenizer = word_tokenizer(texts)
        library = tiny_llama(len(tokenizer), seed)
    return HubModel("tiny", library.to(device), HubTokenizer(tokenizer))


def word_tokenizer(texts: Sequence[str]) -> Any:
    """One token per word of these texts, and the full stop; with a chat template."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = dict.fromkeys([*MARKS, ".", *(w for t in texts for w in t.replace(".", " . ").split())])
    table = {word: i for i, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    library = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<start>",
        eos_token="<end>",
        pad_token="<end>",
        unk_token="<unk>",
    )
    library.chat_template = TEMPLATE
    return library


def tiny_llama(vocabulary: int, seed: Seed) -> Any:
    """The embeddings of the markers are 0, so that the model writes words."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        **SIZE, vocab_size=vocabulary, bos_token_id=0, eos_token_id=1, pad_token_id=1
    )
    library = redraw_weights(LlamaForCausalLM(config), seed)
    with torch.no_grad():
        library.model.embed_tokens.weight[: len(MARKS)] = 0.0
    return library
