"""An encoder and labelled texts made on the spot, for runs of seconds: nothing is downloaded.

The encoder is a random BERT of two narrow layers with a tokenizer of whole words. In a text one
word decides the class, among words that do not; in a pair, whether both hold such a word of one
kind. No accuracy on them means anything: they exercise every step of the studies.
"""

import hashlib
from functools import lru_cache
from typing import Any

from attnlab.core.seeds import Seed
from attnlab.models.encoder import Encoder
from attnlab.tasks.labelled import Example, LabelledData, split_by_hash

GOOD, BAD = ("good", "fine", "lovely"), ("bad", "dull", "awful")
PLAIN = ("a", "film", "the", "it", *(f"w{i}" for i in range(30)))
MARKS = ("<s>", "<pad>", "</s>", "<unk>")
SHAPE: dict[str, Any] = {
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 17,
    "max_position_embeddings": 31,
    "type_vocab_size": 2,
    "pad_token_id": 1,
}
SPREAD = 0.3  # of its weights: words must differ from the start
ROWS = 6000  # of which a tenth tests: ±4 points
YES = 0.62  # of the pairs' answers, as in BoolQ


@lru_cache(maxsize=1)
def encoder() -> Encoder:
    """A random BERT; its "SHA-256" is that of its shape."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from attnlab.models.trainable import redraw_weights

    table = {word: i for i, word in enumerate((*MARKS, *GOOD, *BAD, *PLAIN))}
    words = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B:1 </s>:1",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=SHAPE["max_position_embeddings"],
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    config = BertConfig(**SHAPE, vocab_size=len(table), initializer_range=SPREAD)
    library = redraw_weights(
        BertModel(config, add_pooling_layer=False), Seed(5).child("tiny encoder")
    )
    sha256 = hashlib.sha256(str(sorted(SHAPE.items())).encode()).hexdigest()
    return Encoder("tiny", library.eval(), tokenizer, sha256)


def texts(rows: int = ROWS) -> LabelledData:
    """One word of a text decides; half of each class."""
    rng = Seed(3).child("made-up texts").numpy_generator()
    found = [Example(_said(rng, GOOD if i % 2 else BAD), None, i % 2) for i in range(rows)]
    return split_by_hash("made-up", ("negative", "positive"), tuple(found))


def pairs(rows: int = ROWS) -> LabelledData:
    """Yes if both texts hold a word of one kind."""
    rng = Seed(3).child("made-up pairs").numpy_generator()
    found = []
    for _ in range(rows):
        one, yes = int(rng.integers(2)), bool(rng.random() < YES)
        kinds = (GOOD, BAD)
        first, second = kinds[one], kinds[one if yes else 1 - one]
        found.append(Example(_said(rng, first, 2), _said(rng, second), int(yes)))
    return split_by_hash("made-up pairs", ("no", "yes"), tuple(found))


def _said(rng: Any, kind: tuple[str, ...], words: int = 5) -> str:
    said = [str(word) for word in rng.choice(PLAIN, words)]
    said.insert(int(rng.integers(words + 1)), str(rng.choice(kind)))
    return " ".join(said)
