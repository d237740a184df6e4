"""A model and articles made on the spot, for runs of seconds: nothing is downloaded.

The model is a random Llama with a tokenizer of whole words; the articles are a few dozen sentences
about who did what where. No summary of it means anything: it exercises every step of the study.
"""

from typing import Any

from attnlab.core.seeds import Seed
from attnlab.tasks.summaries import SummaryRow

WHO = ("The mayor", "A farmer", "Two sisters", "The court", "A young pilot", "The old school")
DID = ("opened", "sold", "found", "closed", "painted", "lost")
WHAT = ("a bridge", "the red boat", "seven letters", "a garden", "the town hall", "an island")
WHERE = ("in Leeds", "near the river", "after the storm", "on Monday", "last winter", "at noon")
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
ROWS = 120


def rows(count: int = ROWS) -> tuple[SummaryRow, ...]:
    """Articles of five sentences; the summary is two of them, the later one first."""
    rng = Seed(7).child("made-up articles").numpy_generator()
    found = []
    for number in range(count):
        said = [
            " ".join(str(rng.choice(words)) for words in (WHO, DID, WHAT, WHERE)) + "."
            for _ in range(5)
        ]
        one, other = sorted(int(i) for i in rng.choice(5, size=2, replace=False))
        between = "\n" if number % 3 == 0 else " "  # some people write a sentence a line
        found.append(SummaryRow(" ".join(said), f"{said[other]}{between}{said[one]}"))
    return tuple(dict.fromkeys(found))


def tokenizer(instruction: str) -> Any:
    """Whole words of the sentences above and of the instruction, and their stops."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    texts = [*WHO, *DID, *WHAT, *WHERE, instruction]
    words = dict.fromkeys([*MARKS, ".", *(w for t in texts for w in t.replace(".", " . ").split())])
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    library = PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<start>",
        eos_token="<end>",
        pad_token="<end>",
        unk_token="<unk>",
    )
    library.chat_template = TEMPLATE
    return library


def llama(vocabulary: int, seed: Seed) -> Any:
    """A random Llama of five narrow layers; its markers weigh nothing, so that it writes words."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from attnlab.studies.distillation.models import redrawn

    config = LlamaConfig(
        **SIZE, vocab_size=vocabulary, bos_token_id=0, eos_token_id=1, pad_token_id=1
    )
    made = redrawn(LlamaForCausalLM(config), seed)
    with torch.no_grad():
        made.model.embed_tokens.weight[: len(MARKS)] = 0.0
    return made
