"""Ids of one tokenizer given to the model of another: accepted without a word.

    own       text → the model's own tokenizer → ids → perplexity
    foreign   text → another's tokenizer → ids, all below the model's vocabulary → perplexity

An id at or above the vocabulary is the only one that fails aloud. Segment ids of a pair given to a
GPT-2 are looked up in the table of words and added: segment 1 is the word of id 1.
"""

import math
from typing import Any

import numpy as np
import torch

from attnlab.lab.trial import Outcome, Trial
from attnlab.measure.perplexity import Perplexity, token_nll, windows
from attnlab.measure.perplexity import score as scored
from attnlab.studies.concepts.texts import splits, taken

CHARACTERS = 6  # a token has fewer, so that a piece of so many holds enough tokens


def read_foreign(trial: Trial) -> Outcome:
    """Perplexity of the same texts in the model's own ids and in GPT-2's."""
    from attnlab.models.trainable import open_trainable

    c = trial.config
    model, other = open_trainable(c["reader"], "cpu"), gpt2_tokenizer()
    assert model.tokenizer is not None
    length = c["foreign_tokens"]
    texts = taken(
        splits("news").test, CHARACTERS * 2 * c["foreign"] * length, trial.stream.child("texts")
    )
    found: dict[str, list[list[int]]] = {"own": [], "foreign": []}
    loud = 0
    for text in (piece for t in texts for piece in _pieces(t, CHARACTERS * length)):
        own, theirs = model.tokenizer.encode(text)[:length], other.encode(text).ids[:length]
        if min(len(own), len(theirs)) < length or len(found["own"]) == c["foreign"]:
            continue
        if max(theirs) >= model.vocabulary:
            loud += 1
            continue
        found["own"].append(own)
        found["foreign"].append(theirs)
    nll = token_nll(lambda ids, hidden: model.logits(ids, hidden))
    read = {
        name: scored(nll, [next(windows(row, length - 1)) for row in rows])
        for name, rows in found.items()
    }
    ppl: dict[str, Perplexity] = {name: scores.perplexity for name, scores in read.items()}
    return Outcome(
        {
            "own_perplexity": ppl["own"].corpus,
            "foreign_perplexity": ppl["foreign"].corpus,
            "log_ratio": math.log(ppl["foreign"].corpus / ppl["own"].corpus),
            "log_over_uniform": math.log(ppl["foreign"].corpus / model.vocabulary),
            "texts": len(found["own"]),
            "refused": loud,
            "vocabulary": model.vocabulary,
            "segment_gap": segments_are_words(trial.stream.child("words").number % 2**31),
        },
        arrays={name: scores.nll / scores.tokens for name, scores in read.items()},
        samples=[model.tokenizer.decode(found["foreign"][0])] if found["foreign"] else [],
    )


def _pieces(text: str, size: int) -> list[str]:
    words = " ".join(text.split())
    return [words[i : i + size] for i in range(0, len(words) - size, size)]


def gpt2_tokenizer() -> Any:
    """GPT-2's byte-level BPE, from the asset's two files."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    from attnlab.assets import get

    files = {file.suffix: str(file) for file in get("gpt2-bpe").files}
    library = Tokenizer(models.BPE.from_file(files[".json"], files[".txt"]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    return library


@torch.no_grad()
def segments_are_words(number: int) -> float:
    """Largest |difference| of a GPT-2 given segment ids, and given words with 0 and 1 added."""
    from transformers import GPT2Config, GPT2Model

    from attnlab.core.seeds import Seed
    from attnlab.models.trainable import redraw_weights

    config = GPT2Config(
        vocab_size=29,
        n_positions=11,
        n_embd=12,
        n_layer=2,
        n_head=3,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: Any = GPT2Model(config).eval()
    redraw_weights(model, Seed(number))
    rng = Seed(number).child("ids").numpy_generator()
    ids = torch.from_numpy(rng.integers(0, 29, size=(2, 7)))
    kinds = torch.from_numpy((np.arange(7) > 3).astype(np.int64)).expand(2, 7)
    given = model(input_ids=ids, token_type_ids=kinds).last_hidden_state
    added = model(inputs_embeds=model.wte(ids) + model.wte(kinds)).last_hidden_state
    plain = model(input_ids=ids).last_hidden_state
    assert not torch.allclose(given, plain), "segments change what a GPT-2 reads"
    return float((given - added).abs().max() / plain.abs().max())
