"""A random BERT of two narrow layers with a tokenizer of whole words, for runs of seconds.

Nothing is downloaded. What it computes means nothing: it exercises every step of a study.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from attnlab.core.seeds import Seed
from attnlab.models.encoder import Encoder

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
SHAPE: dict[str, Any] = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "max_position_embeddings": 31,
    "type_vocab_size": 2,
    "pad_token_id": 1,
}
INITIALIZER_RANGE = 0.3  # of the weights: words must differ from the start


def tiny_encoder(words: Sequence[str]) -> Encoder:
    """A tiny BERT that knows these words; its hash is that of its shape, not of its weights."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from attnlab.models.trainable import redraw_weights

    table = {word: i for i, word in enumerate((*SPECIAL, *words))}
    whole = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    whole.pre_tokenizer = pre_tokenizers.Whitespace()
    whole.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=whole,
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=SHAPE["max_position_embeddings"],
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    config = BertConfig(**SHAPE, vocab_size=len(table), initializer_range=INITIALIZER_RANGE)
    library = redraw_weights(
        BertModel(config, add_pooling_layer=False), Seed(5).child("tiny encoder")
    )
    sha256 = hashlib.sha256(str(sorted(SHAPE.items())).encode()).hexdigest()
    return Encoder("tiny", library.eval(), tokenizer, sha256)
