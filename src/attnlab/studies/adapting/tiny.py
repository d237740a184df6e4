"""A made-up encoder and made-up labelled texts, for runs of seconds without downloads.

The encoder is a random BERT with two narrow layers and a tokenizer of whole words. One word of a
text decides its class; for a pair, the class is whether both texts contain such a word of the same
kind. Accuracies on these data mean nothing: they exercise every step of the studies.
"""

import hashlib
from typing import Any

from attnlab.core.seeds import Seed
from attnlab.models.encoder import Encoder
from attnlab.tasks.labelled import Example, LabelledData, split_by_hash

GOOD, BAD = ("good", "fine", "lovely"), ("bad", "dull", "awful")
PLAIN = ("a", "film", "the", "it", *(f"w{i}" for i in range(30)))
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
ROWS = 6000  # a tenth of them are test rows: accuracies are known to ±4 points
YES = 0.62  # share of the answer 'yes' among pairs, as in BoolQ


def encoder() -> Encoder:
    """A random BERT; in place of a hash of its weights it has one of its shape."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from attnlab.models.trainable import redraw_weights

    table = {word: i for i, word in enumerate((*SPECIAL, *GOOD, *BAD, *PLAIN))}
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
    config = BertConfig(**SHAPE, vocab_size=len(table), initializer_range=INITIALIZER_RANGE)
    library = redraw_weights(
        BertModel(config, add_pooling_layer=False), Seed(5).child("tiny encoder")
    )
    sha256 = hashlib.sha256(str(sorted(SHAPE.items())).encode()).hexdigest()
    return Encoder("tiny", library.eval(), tokenizer, sha256)


def texts(rows: int = ROWS) -> LabelledData:
    """Texts in which one word decides the class; both classes are equally frequent."""
    rng = Seed(3).child("made-up texts").numpy_generator()
    examples = [Example(_text(rng, GOOD if i % 2 else BAD), None, i % 2) for i in range(rows)]
    return split_by_hash("made-up", ("negative", "positive"), tuple(examples))


def pairs(rows: int = ROWS) -> LabelledData:
    """Pairs whose class is `yes` if both texts contain a word of the same kind."""
    rng = Seed(3).child("made-up pairs").numpy_generator()
    examples = []
    for _ in range(rows):
        one, yes = int(rng.integers(2)), bool(rng.random() < YES)
        kinds = (GOOD, BAD)
        first, second = kinds[one], kinds[one if yes else 1 - one]
        examples.append(Example(_text(rng, first, 2), _text(rng, second), int(yes)))
    return split_by_hash("made-up pairs", ("no", "yes"), tuple(examples))


def _text(rng: Any, kind: tuple[str, ...], words: int = 5) -> str:
    """Neutral words with one word of this kind at a random position."""
    text = [str(word) for word in rng.choice(PLAIN, words)]
    text.insert(int(rng.integers(words + 1)), str(rng.choice(kind)))
    return " ".join(text)
